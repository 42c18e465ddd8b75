"""A gateway with two platform keys of one provider, which rejects one key or the other."""

import re
from collections.abc import Iterator

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, provider
from rig.gateway import Gateway
from rig.scripts import Received, Script, ordinary, whole
from rig.upstream import Upstream

ONE, TWO = "fake-platform-key-of-account-1", "fake-platform-key-of-account-2"


class Accounts:
    """The provider, with its answer to each key. ``asked`` has the keys in the order of the calls."""

    def __init__(self) -> None:
        self.answers: dict[str, Script] = {}
        self.asked: list[str] = []

    def __call__(self, request: Received) -> Script:
        key = (request.header("authorization") or "").removeprefix("Bearer ")
        self.asked.append(key)
        return self.answers.get(key) or ordinary(request)


def refusal(status: int, **headers: str) -> Script:
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return whole({"error": {"message": "Not with this key."}}, status, named)


@pytest.fixture(scope="module")
def pair(start_gateway: StartGateway, upstreams: dict[str, Upstream]) -> Gateway:
    """A gateway with two keys for TESTER."""
    table = provider(upstreams["TESTER"].base_url, platform_keys=["env:KEY_ONE", "env:KEY_TWO"])
    del table["platform_key"]
    return start_gateway(
        providers={"TESTER": table},
        models={"tester-large": model()},
        environment={"KEY_ONE": ONE, "KEY_TWO": TWO},
    )


@pytest.fixture
def accounts(upstream: Upstream) -> Accounts:
    made = Accounts()
    upstream.behave(made)
    return made


@pytest.fixture
def caller(pair: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=pair.url, headers=pair.headers, timeout=BOUND_S, trust_env=False) as made:
        yield made


def statuses(caller: httpx.Client, count: int, *, run: str = "", stream: bool = False) -> list[int]:
    body = {"messages": HELLO, "stream": stream} | ({"prompt_cache_key": run} if run else {})
    return [caller.post("/v1/chat/completions", json=body).status_code for _ in range(count)]


def find_run(caller: httpx.Client, accounts: Accounts, key: str) -> str:
    """Return the name of a conversation that has this key."""
    for number in range(100):
        accounts.asked.clear()
        assert statuses(caller, 1, run=f"run {number}") == [200]
        if accounts.asked == [key]:
            return f"run {number}"
    raise AssertionError("no conversation has this key")


def keys_check(pair: Gateway) -> str:
    """Return the text of /readyz on the keys. The gateway is always ready."""
    found = pair.readiness()
    assert (found.status_code, found.json()["ready"]) == (200, True)
    return str(found.json()["checks"]["platform_keys"])


def counted(pair: Gateway) -> dict[str, float]:
    """Return the number of keys in each state, from /metrics."""
    page = httpx.get(f"{pair.admin_url}/metrics", timeout=BOUND_S, trust_env=False).text
    found = re.findall(
        r'^tollgate_platform_keys\{provider="TESTER",state="(\w+)"\} (\S+)$', page, re.MULTILINE
    )
    return {state: float(count) for state, count in found}


def test_a_conversation_keeps_its_key_and_operators_see_a_rejected_key_rest(
    pair: Gateway, caller: httpx.Client, accounts: Accounts
) -> None:
    of_one, of_two = (find_run(caller, accounts, key) for key in (ONE, TWO))
    accounts.asked.clear()
    assert statuses(caller, 3, run=of_one) + statuses(caller, 2, run=of_two, stream=True) == [200] * 5
    assert accounts.asked == [ONE, ONE, ONE, TWO, TWO]
    assert (keys_check(pair), counted(pair)) == ("ok", {"ready": 2, "resting": 0})

    accounts.asked.clear()
    accounts.answers[ONE] = refusal(401)
    assert statuses(caller, 5, run=of_one) == [401, 200, 200, 200, 200]
    assert accounts.asked == [ONE, TWO, TWO, TWO, TWO]
    assert re.fullmatch(r"TESTER: key 1 of 2 rests \d+ s after 401", keys_check(pair))
    assert counted(pair) == {"ready": 1, "resting": 1}

    # Where both rest, the key that is ready first is used. Once it succeeds, it rests no more.
    accounts.asked.clear()
    accounts.answers = {TWO: refusal(429, retry_after="600")}
    assert statuses(caller, 1, run=of_two, stream=True) == [429]
    assert counted(pair) == {"ready": 0, "resting": 2}
    assert statuses(caller, 3, run=of_two) == [200] * 3
    assert accounts.asked == [TWO, ONE, ONE, ONE]
    assert re.fullmatch(r"TESTER: key 2 of 2 rests \d+ s after 429", keys_check(pair))

    page = httpx.get(f"{pair.admin_url}/metrics", timeout=BOUND_S, trust_env=False).text
    pair.wait_for_log(lambda line: line["message"] == "TESTER: key 1 of 2 rests 60 s after 401")
    for key in (ONE, TWO):
        assert key not in page + pair.readiness().text
    pair.assert_no_secret_logged([ONE, TWO])
