"""The token of a call: taken with its hold where that is possible, and before every refusal that comes earlier."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
from rig.call_stages import make_dependencies, request_head
from rig.configuration import Configuration, model, provider, workspace

from addon.calls.call import admit, begin
from addon.calls.call_state import Call
from addon.calls.chat_request import parse_chat_request
from addon.calls.dependencies import Dependencies
from addon.calls.rate_limit import take_late_token
from addon.calls.reservation import reserve_first
from addon.calls.upstream_request import accept_request, accept_route, find_route
from addon.settings.settings import Settings, load_settings
from addon.store.money.sqlite.store import SqliteStore
from policies.call_stages import Stage
from policies.refusal import Refusal

KEY = f"tg_{'rate':0<40}"
BODY = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    written = Configuration(
        providers={"TESTER": provider("http://127.0.0.1:1/v1")},
        models={"m": model()},
        workspaces={"acme": workspace(("ci", KEY, True), rpm_override=1)},
    ).write(tmp_path_factory.mktemp("rate-limit"))
    return load_settings(written, {"TEST_PROVIDER_KEY": "fake"})


@pytest.fixture
async def deps(settings: Settings, tmp_path: Path) -> AsyncIterator[Dependencies]:
    made = make_dependencies(settings, tmp_path / "tollgate.db")
    yield made
    await made.pool.close()
    await made.store.close()


@pytest.fixture
def commits(deps: Dependencies) -> list[str]:
    """All commits of the store so far. The list grows."""
    found: list[str] = []
    connection = cast(SqliteStore, deps.store)._file.connection
    connection.set_trace_callback(lambda sql: found.append(sql) if sql == "COMMIT" else None)
    return found


async def admitted(deps: Dependencies, *, has_whole_body: bool = True) -> Call:
    call = begin(deps)
    await admit(call, request_head(KEY), deps, has_whole_body=has_whole_body)
    return call


def route(call: Call) -> None:
    accept_request(call, parse_chat_request(BODY))
    accept_route(call, find_route(call))


async def test_a_call_that_is_whole_takes_its_token_and_its_hold_in_one_commit(
    deps: Dependencies, commits: list[str]
) -> None:
    call = await admitted(deps)
    assert commits == []
    route(call)
    await reserve_first(call, deps)
    assert commits == ["COMMIT"]
    assert call.exchange.stage is Stage.DISPATCHED


async def test_a_call_whose_body_follows_takes_its_token_first(
    deps: Dependencies, commits: list[str]
) -> None:
    call = await admitted(deps, has_whole_body=False)
    assert commits == ["COMMIT"]
    route(call)
    await reserve_first(call, deps)
    assert commits == ["COMMIT"] * 2


async def test_without_a_token_nothing_is_held_and_the_call_is_as_it_was_identified(
    deps: Dependencies,
) -> None:
    first, second = await admitted(deps), await admitted(deps)
    for call in (first, second):
        route(call)
    await reserve_first(first, deps)
    with pytest.raises(Refusal) as refused:
        await reserve_first(second, deps)
    assert (refused.value.code, refused.value.retry_after_s) == ("rate_limit_exceeded", 60)
    assert (second.exchange.stage, second.exchange.requested_model) == (Stage.IDENTIFIED, None)
    assert len(deps.in_flight.calls) == 2


async def test_a_workspace_without_a_token_takes_the_next_one_first(deps: Dependencies) -> None:
    await admitted(deps, has_whole_body=False)
    for has_whole_body in (False, True):
        with pytest.raises(Refusal, match="1 requests a minute"):
            await admitted(deps, has_whole_body=has_whole_body)


async def test_a_late_token_is_taken_once(deps: Dependencies, commits: list[str]) -> None:
    call = await admitted(deps)
    route(call)
    for _ in range(2):
        await take_late_token(call, deps)
        assert commits == ["COMMIT"]
        assert call.exchange.stage is Stage.ROUTED
