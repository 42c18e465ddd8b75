"""A first attempt that failed is found in the rows of other providers, by the model that its client asked for."""

import json
from pathlib import Path

import pytest
from rig.usage_report import write_rows

from unit.commands.test_ledger_reconcile import CALLS, COSTS, MODELS, USAGE, conf_with, row, run


@pytest.mark.parametrize(
    ("asked", "served", "cause"),
    [
        ("Terra", "gpt", "failed attempt"),
        ("terra", "terra", "did not pass the gateway"),  # Its own key failed, and the platform's followed.
        ("gpt", "llama", "did not pass the gateway"),
        (None, "llama", "did not pass the gateway"),
    ],
)
def test_a_failed_first_attempt_explains_what_its_provider_charged(
    tmp_path: Path, asked: str | None, served: str, cause: str
) -> None:
    conf = conf_with(MODELS, tmp_path)
    elsewhere = {"provider": "GROQ", "fallback": 1, "attempts": 2, "requested_model": asked}
    rest = [one for one in CALLS if one["id"] != "terra-b"]
    write_rows(conf, [*rest, row("net", served, "llama", (9, 0, 0, 9), 9, **elsewhere)])
    found = json.loads(run(conf, COSTS, USAGE, "--json").stdout)
    assert found["causes"] == {cause: 220_000_000, "wrong tier": 977_500_000}
