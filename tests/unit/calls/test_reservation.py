"""From a failed attempt to the next one: what calls share, no call changes."""

from pathlib import Path

import pytest
from rig.call_stages import call_at, make_dependencies
from rig.configuration import Configuration, model, provider, workspace

from addon.calls.reservation import reserve_next
from addon.settings.settings import load_settings
from addon.text.errors import provider_unreachable
from policies.call_stages import Stage
from policies.refusal import Refusal

KEY = f"tg_{'a':0<40}"


async def test_a_refusal_of_a_route_that_calls_share_keeps_no_trace_of_them(tmp_path: Path) -> None:
    own_key = {"TESTER": {"secret": "env:TEST_OWN_KEY", "routing": True}}
    written = Configuration(
        providers={"TESTER": provider("http://127.0.0.1:20000/v1")},
        models={"m": model(byok_only=True)},
        workspaces={"acme": workspace(("ci", KEY, True), byok=own_key, safety_net=True)},
    ).write(tmp_path)
    environment = {"TEST_PROVIDER_KEY": "fake", "TEST_OWN_KEY": "fake-own-key"}
    deps = make_dependencies(load_settings(written, environment), tmp_path / "tollgate.db")
    raised = []
    for _ in range(2):
        call = await call_at(Stage.DISPATCHED, deps, KEY)
        with pytest.raises(Refusal) as refused:
            await reserve_next(call, deps, provider_unreachable())
        await deps.in_flight.abandon(call)
        raised.append(refused.value)
    shared = call.exchange.route.fallback_refusal
    assert shared
    assert shared.__traceback__ is None
    assert [(one.code, one.message) for one in raised] == [(shared.code, shared.message)] * 2
    await deps.in_flight.close()
    await deps.pool.close()
    await deps.store.close()
