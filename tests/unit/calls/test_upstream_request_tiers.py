"""Service tiers: a call with a platform key names one, so no setting at the provider makes it dearer than its hold."""

import asyncio
import json
from pathlib import Path
from typing import NamedTuple

import pytest
from rig.bounds import BOUND_S
from rig.call_stages import call_at, make_dependencies
from rig.configuration import Configuration, model, provider, workspace

from addon.settings.settings import load_settings
from policies.call_stages import Stage

KEY = f"tg_{'a':0<40}"
PRICES = {"input_price_per_m": "1", "output_price_per_m": "2"}
TIERS = {
    "priority": {"input_price_per_m": "2", "output_price_per_m": "4"},
    "flex": {"input_price_per_m": "0.5", "output_price_per_m": "1"},
}
URL = "http://127.0.0.1:20000/v1"


class Sent(NamedTuple):
    """The service tier that a call went out with, the money held for it, how it was changed, and what was dropped."""

    tier: str | None
    held_nanousd: int
    change: str | None
    dropped: str | None


async def send(folder: Path, usual: str | None, asked: str | None, **tables: object) -> Sent:
    """Return how a call goes out."""
    named = {} if usual is None else {"service_tier": usual}
    byok = tables.pop("byok", None)
    written = Configuration(
        providers={"TESTER": provider(URL) | named},
        models={"m": model(**PRICES, **tables)},
        workspaces={
            "acme": workspace(
                ("ci", KEY, True), monthly_spend_cap_usd="1", **({"byok": byok} if byok else {})
            )
        },
    ).write(folder)
    settings = load_settings(written, {"TEST_PROVIDER_KEY": "fake", "OWN_KEY": "fake-too"})
    deps = make_dependencies(settings, folder / "tollgate.db")
    fields = {} if asked is None else {"service_tier": asked}
    call = await call_at(Stage.DISPATCHED, deps, KEY, max_tokens=1000, **fields)
    assert call.exchange.hold is not None
    sent = json.loads(call.attempt.request.content)
    changes = {one.field: one.action for one in call.attempt.sanitized.changes}
    await deps.in_flight.settle(call, 502, "upstream_error")
    await asyncio.wait_for(deps.in_flight.close(), BOUND_S)
    await deps.pool.close()
    await deps.store.close()
    held_nanousd = call.exchange.hold.amount_nanousd
    return Sent(sent.get("service_tier"), held_nanousd, changes.get("service_tier"), call.attempt.dropped)


@pytest.mark.parametrize(
    ("usual", "asked", "sent", "factor"),
    [
        ("default", None, "default", 1),
        ("default", "auto", "default", 1),
        ("default", "scale", "default", 1),
        ("default", "default", "default", 1),
        ("default", "flex", "flex", 1),
        ("default", "priority", "priority", 2),
        ("default", "fast", "fast", 2),
        ("priority", None, "priority", 2),
        ("priority", "default", "default", 1),
        (None, None, None, 2),  # The setting at the provider decides.
        (None, "default", "default", 1),
        ("ultrafast", None, None, 2),
    ],
)
async def test_money_is_held_for_the_tier_that_is_asked_for(
    tmp_path: Path, usual: str | None, asked: str | None, sent: str | None, factor: int
) -> None:
    found = await send(tmp_path / "tiers", usual, asked, service_tiers=TIERS)
    plain = await send(tmp_path / "plain", None, None)
    assert (found.tier, found.held_nanousd) == (sent, factor * plain.held_nanousd)


@pytest.mark.parametrize(
    ("asked", "change", "dropped"),
    [(None, "set", None), ("auto", "replaced", "service_tier"), ("flex", "kept", None)],
)
async def test_a_service_tier_of_the_gateways_is_explained(
    tmp_path: Path, asked: str | None, change: str, dropped: str | None
) -> None:
    found = await send(tmp_path, "default", asked, service_tiers=TIERS)
    assert (found.change, found.dropped) == (change, dropped)


async def test_a_model_without_tiers_is_asked_for_the_usual_service_only(tmp_path: Path) -> None:
    assert (await send(tmp_path / "a", "default", None)).tier == "default"
    assert (await send(tmp_path / "b", "priority", None)).tier is None


async def test_a_customers_own_key_has_the_setting_of_its_own_account(tmp_path: Path) -> None:
    own = {"TESTER": {"secret": "env:OWN_KEY", "routing": True}}
    found = await send(tmp_path, "default", None, service_tiers=TIERS, byok=own)
    assert found == (None, 0, None, None)
