"""The token of a call: taken with its hold where that is possible, and before every refusal that comes earlier."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
from rig.call_stages import make_dependencies, request_head
from rig.configuration import Configuration, model, provider, workspace

from addon.apis.chat.request import parse_chat_request
from addon.calls.call import admit, begin
from addon.calls.call_state import Call
from addon.calls.dependencies import Dependencies
from addon.calls.rate_limit import take_late_token
from addon.calls.reservation import reserve_first
from addon.calls.upstream_request import accept_request, accept_route, find_route
from addon.settings.settings import Settings, load_settings
from addon.store.money.sqlite.store import SqliteStore
from policies.call_stages import Stage
from policies.refusal import Refusal
from policies.token_rate import WINDOW_MS

KEY = f"tg_{'rate':0<40}"
BOUNDED = f"tg_{'tokens':0<40}"
"""The key of a workspace with a limit of tokens a minute."""
BODY = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    written = Configuration(
        providers={"TESTER": provider("http://127.0.0.1:1/v1")},
        models={"m": model()},
        workspaces={
            "acme": workspace(("ci", KEY, True), rpm_override=1),
            "bounded": workspace(("ci", BOUNDED, True), tpm=20_000),
        },
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


async def admitted(deps: Dependencies, *, has_whole_body: bool = True, key: str = KEY) -> Call:
    call = begin(deps)
    await admit(call, request_head(key), deps, has_whole_body=has_whole_body)
    return call


def levels(deps: Dependencies) -> list[int]:
    """Return how many tokens are in each bucket of tokens a minute."""
    found = cast(SqliteStore, deps.store)._file.connection.execute("SELECT level FROM token_buckets")
    return [level // WINDOW_MS for (level,) in found]


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


async def test_a_call_takes_its_tokens_a_minute_and_its_hold_in_one_commit(
    deps: Dependencies, commits: list[str]
) -> None:
    call = await admitted(deps, key=BOUNDED)
    route(call)
    await reserve_first(call, deps)
    assert commits == ["COMMIT"]
    [taken] = levels(deps)
    assert 16_384 // 4 < taken < 5_000
    await deps.in_flight.settle(call, 502, "upstream_error")
    assert commits == ["COMMIT"] * 2
    assert levels(deps) == [0]


@pytest.mark.parametrize("has_whole_body", [True, False])
async def test_without_a_limit_no_statement_is_of_tokens_a_minute(
    deps: Dependencies, *, has_whole_body: bool
) -> None:
    found: list[str] = []
    connection = cast(SqliteStore, deps.store)._file.connection
    connection.set_trace_callback(found.append)
    call = await admitted(deps, has_whole_body=has_whole_body)
    route(call)
    await reserve_first(call, deps)
    await deps.in_flight.settle(call, 502, "upstream_error")
    assert len([one for one in found if one == "COMMIT"]) == (2 if has_whole_body else 3)
    assert not [one for one in found if "token_buckets" in one]


async def test_a_call_without_room_has_its_token_and_holds_nothing(deps: Dependencies) -> None:
    calls = [await admitted(deps, has_whole_body=has_body, key=BOUNDED) for has_body in (True, False) * 3]
    for call in calls:
        route(call)
    for call in calls[:4]:
        await reserve_first(call, deps)
    for call in calls[4:]:
        with pytest.raises(Refusal, match="20000 tokens a minute is reached") as refused:
            await reserve_first(call, deps)
        assert (refused.value.code, call.exchange.stage) == ("rate_limit_exceeded", Stage.ROUTED)
        assert call.without_token is None
    await deps.in_flight.abandon(calls[0])
    await reserve_first(calls[4], deps)
