"""The calls in flight of one workspace, and the log lines of calls that anyone can make."""

import httpx
import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.configuration import new_key, workspace
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.raw_clients import RawClient
from rig.scripts import Gate, Received, Script, ordinary
from rig.upstream import Upstream

from addon.telemetry.log_limits import MAX_LINES

CHAT = "/v1/chat/completions"
LIMIT = 3
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def small(start_gateway: StartGateway) -> Gateway:
    """A gateway where a workspace may have three calls in flight."""
    keys = {name: new_key() for name in ("ci", "other")}
    workspaces = {
        name: workspace((name, key, True), default_model="tester-large") for name, key in keys.items()
    }
    made = start_gateway(workspaces=workspaces, sections={"limits": {"max_in_flight": LIMIT}})
    made.keys = keys
    return made


def ask(gateway: Gateway, key: str = "ci") -> httpx.Response:
    headers = {"Authorization": f"Bearer {gateway.keys.get(key, key)}"}
    return httpx.post(
        gateway.url + CHAT, json={"messages": HELLO}, headers=headers, timeout=BOUND_S, trust_env=False
    )


def hold(gateway: Gateway, upstream: Upstream) -> tuple[Gate, list[RawClient]]:
    """Open as many streams as are allowed. They wait at a gate in the middle of their answers."""
    gate = Gate()

    def answer(request: Received) -> Script:
        if not request.json().get("stream"):
            return ordinary(request)
        first, *rest = ordinary(request)
        return first, rest[0], gate, *rest[1:]

    upstream.behave(answer)
    clients = []
    for _ in range(LIMIT):
        client = RawClient(gateway.url)
        client.send(gateway.chat_bytes(stream=True))
        assert client.read_head().status == 200
        clients.append(client)
    return gate, clients


def test_a_workspace_has_a_bounded_number_of_calls_in_flight(small: Gateway, upstream: Upstream) -> None:
    gate, clients = hold(small, upstream)
    refused = ask(small)
    assert_error(refused, 429, "rate_limit_exceeded", "rate_limit_error")
    assert refused.headers["retry-after"] == "1"
    assert f"{LIMIT} calls in flight" in refused.json()["error"]["message"]
    assert ask(small, "other").status_code == 200
    assert httpx.get(f"{small.url}/v1/models", timeout=BOUND_S, trust_env=False).status_code == 200
    line = small.wait_for_log(lambda line: line.get("id") == refused.headers["x-request-id"])
    assert (line["event"], line["workspace"], line["error_code"]) == ("refusal", "ci", "rate_limit_exceeded")
    gate.open()
    for client in clients:
        client.read_chunks_until(b"[DONE]")
        client.close()
    assert ask(small).status_code == 200


@pytest.mark.parametrize("end", ["leave", "finish"])
def test_a_call_that_ends_in_any_way_makes_room_for_one(small: Gateway, upstream: Upstream, end: str) -> None:
    gate, clients = hold(small, upstream)
    assert ask(small).status_code == 429
    if end == "leave":
        clients[0].close()
        small.wait_until(lambda: ask(small).status_code == 200)
        gate.open()
    else:
        gate.open()
        small.wait_until(lambda: ask(small).status_code == 200)
    for client in clients:
        client.close()
    # Bad bodies, refusals and answers count only while they last.
    headers = {"Authorization": f"Bearer {small.keys['ci']}", "Content-Type": "application/json"}
    small.wait_until(lambda: ask(small).status_code == 200)
    for _ in range(2 * LIMIT):
        bad = httpx.post(small.url + CHAT, content=b"{", headers=headers, timeout=BOUND_S, trust_env=False)
        assert bad.status_code == 400
    assert ask(small).status_code == 200


def refusals_counted(gateway: Gateway) -> float:
    page = httpx.get(f"{gateway.admin_url}/metrics", timeout=BOUND_S, trust_env=False).text
    [line] = [
        line
        for line in page.splitlines()
        if line.startswith('tollgate_refusals_total{code="invalid_api_key"}')
    ]
    return float(line.split()[1])


def test_refusals_of_calls_without_a_key_are_all_counted_and_few_are_logged(small: Gateway) -> None:
    before, counted = len(small.logs), refusals_counted(small)
    with httpx.Client(base_url=small.url, timeout=BOUND_S, trust_env=False) as client:
        sent = 20 * MAX_LINES
        for _ in range(sent):
            assert client.post(CHAT, json={"messages": HELLO}).status_code == 401
    assert refusals_counted(small) == counted + sent

    def accounted_for() -> int:
        lines = small.logs[before:]
        written = [line for line in lines if line.get("error_code") == "invalid_api_key"]
        left_out = [int(line["message"].split()[0]) for line in lines if line.get("event") == "log limited"]
        assert all(line["event"] == "refusal" for line in written)
        return len(written) + sum(left_out)

    small.wait_until(lambda: accounted_for() == sent)
    assert any(line.get("event") == "log limited" for line in small.logs[before:])


def test_refusals_of_calls_with_a_key_are_all_logged(small: Gateway) -> None:
    headers = {"Authorization": f"Bearer {small.keys['ci']}", "Content-Type": "application/json"}
    with httpx.Client(base_url=small.url, timeout=BOUND_S, trust_env=False, headers=headers) as client:
        ids = {client.post(CHAT, content=b"{").headers["x-request-id"] for _ in range(5 * MAX_LINES)}
    small.wait_until(lambda: ids <= {line.get("id") for line in small.logs})


# --- connections to providers ----------------------------------------------------------------------------------------


def test_a_call_without_a_free_connection_in_time_is_no_failure_of_the_provider(
    start_gateway: StartGateway, upstream: Upstream
) -> None:
    code = (
        "import functools\n"
        "from addon import cli\n"
        "from addon.calls import dependencies\n"
        "from addon.upstream.pool import PoolLimits\n"
        f"limits = PoolLimits(open_per_workspace={LIMIT})\n"
        "dependencies.Pool = functools.partial(dependencies.Pool, limits=limits)\n"
        "cli.main()"
    )
    sections = {"upstream": {"connect_timeout_s": 0.3, "retries": 1}}
    narrow = start_gateway(program=("-c", code), sections=sections)
    gate, clients = hold(narrow, upstream)
    refused = ask(narrow, narrow.key)
    assert_error(refused, 503, "rate_limit_unavailable", "api_error")
    assert refused.headers["retry-after"] == "1"
    assert "connections to the provider" in refused.json()["error"]["message"]
    call_id = refused.headers["x-request-id"]
    line = narrow.wait_for_log(lambda one: one.get("event") == "no connection" and one["id"] == call_id)
    assert "all connections were in use" in line["message"]
    (row,) = [one for one in narrow.ledger_rows() if one["id"] == call_id]
    assert (row["status"], row["usage_source"], row["retail_nanousd"]) == (503, "none", 0)
    assert row["attempts"] == 1, "a call waited twice for this gateway's own connections"
    gate.open()
    for client in clients:
        client.read_chunks_until(b"[DONE]")
        client.close()
    assert ask(narrow, narrow.key).status_code == 200
