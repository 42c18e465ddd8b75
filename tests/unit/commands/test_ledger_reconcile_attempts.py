"""A failed attempt that is in no row is found in the table of attempts.

In rows of earlier versions it is found by the model that the client asked for.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from rig.usage_report import write_rows

from policies.attempt_ends import ATTEMPT_ENDS, AttemptEnd
from policies.model import Mode
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


TERRA, ELSEWHERE = "OPENAI/gpt-5.6-terra", "GROQ/llama"


def ends(*attempts: tuple[str, int], mode: Mode = "payg") -> tuple[AttemptEnd, ...]:
    return tuple(
        AttemptEnd(
            *(number, place.partition("/")[0], place, mode, None, status),
            *(None if status == 200 else "upstream_error", 9),
        )
        for number, (place, status) in enumerate(attempts, 1)
    )


@pytest.mark.parametrize(
    ("attempts", "more", "causes"),
    [
        (ends((TERRA, 504), (ELSEWHERE, 200)), {}, {"failed attempt": 220_000_000}),
        # The customer's own key is on no invoice of the platform.
        (ends((TERRA, 504), (ELSEWHERE, 200), mode="byok"), {}, {"did not pass the gateway": 220_000_000}),
        (ends(("OPENAI/gpt-5.4", 504), (ELSEWHERE, 200)), {}, {"did not pass the gateway": 220_000_000}),
        # The row is that of the first attempt, which is another cause; the second one is beside it.
        (
            ends((TERRA, 504), (ELSEWHERE, 502)),
            {
                "provider": "OPENAI",
                "upstream_model_id": "gpt-5.6-terra",
                "status": 504,
                "first_byte_ms": None,
            },
            {"failed here": 220_000_000},
        ),
        (
            ends((ELSEWHERE, 502), (TERRA, 504)),
            {"status": 502, "first_byte_ms": None},
            {"failed attempt": 220_000_000},
        ),
    ],
)
def test_a_failed_attempt_at_another_place_explains_what_its_provider_charged(
    tmp_path: Path, attempts: tuple[AttemptEnd, ...], more: dict[str, Any], causes: dict[str, int]
) -> None:
    conf = conf_with(MODELS, tmp_path)
    elsewhere = {"provider": "GROQ", "attempts": 2, "requested_model": "terra", ATTEMPT_ENDS: attempts}
    rest = [one for one in CALLS if one["id"] != "terra-b"]
    write_rows(conf, [*rest, row("net", "terra", "llama", (0, 0, 0, 0), 0, **elsewhere | more)])
    found = json.loads(run(conf, COSTS, USAGE, "--json").stdout)
    assert found["causes"] == {**causes, "wrong tier": 977_500_000}
