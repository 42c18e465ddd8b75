"""From a failed attempt to the next one: what calls share, no call changes. Each call takes its token."""

from pathlib import Path

import pytest
from rig.call_stages import call_at, make_dependencies
from rig.configuration import Configuration, model, provider, workspace
from rig.conservation import assert_given_back

from addon.calls.reservation import reserve_first, reserve_next
from addon.settings.settings import load_settings
from addon.text.errors import provider_unreachable
from policies.call_stages import Stage
from policies.circuit_breaker import FAILURES
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


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
async def test_a_call_that_skips_an_open_circuit_takes_its_token_too(tmp_path: Path, is_open: bool) -> None:
    written = Configuration(
        providers={name: provider("http://127.0.0.1:20000/v1") for name in ("FIRST", "SECOND")},
        models={"m": model(provider="FIRST"), "n": model(provider="SECOND")},
        workspaces={"acme": workspace(("ci", KEY, True), fallback_model="n", rpm_override=2)},
    ).write(tmp_path)
    settings = load_settings(written, {"TEST_PROVIDER_KEY": "fake"})
    deps = make_dependencies(settings, tmp_path / "tollgate.db")
    if is_open:
        for _ in range(FAILURES):
            await deps.store.record_attempt("FIRST/payg/acme", failed=True)
        await deps.store.maintain()
    for _ in range(2):
        call = await call_at(Stage.ROUTED, deps, KEY, takes_token_later=True)
        attempt = await reserve_first(call, deps)
        assert attempt.target.model.provider.name == ("SECOND" if is_open else "FIRST")
        await deps.in_flight.abandon(call)
    call = await call_at(Stage.ROUTED, deps, KEY, takes_token_later=True)
    with pytest.raises(Refusal, match="limit of 2 requests a minute"):
        await reserve_first(call, deps)
    await deps.in_flight.abandon(call)
    await deps.in_flight.close()
    assert_given_back(deps)
    await deps.pool.close()
    await deps.store.close()


async def test_a_second_attempt_that_can_not_be_reserved_leaves_the_first_failure_and_a_log_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written = Configuration(
        providers={"TESTER": provider("http://127.0.0.1:20000/v1")},
        models={"m": model(), "n": model()},
        workspaces={"acme": workspace(("ci", KEY, True), fallback_model="n")},
    ).write(tmp_path)
    database = tmp_path / "tollgate.db"
    deps = make_dependencies(load_settings(written, {"TEST_PROVIDER_KEY": "fake"}), database)
    call = await call_at(Stage.DISPATCHED, deps, KEY)
    away = database.rename(database.with_suffix(".away"))
    assert await reserve_next(call, deps, provider_unreachable()) is None
    away.rename(database)
    [line] = [record for record in caplog.records if record.name == "tollgate.reservation"]
    assert line.message.startswith(f"no fallback for a call: {database}: ")
    assert (line.__dict__["event"], line.__dict__["id"]) == ("no fallback", call.exchange.id)
    await deps.in_flight.abandon(call)
    await deps.in_flight.close()
    await deps.pool.close()
    await deps.store.close()
