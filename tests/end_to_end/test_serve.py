"""``tollgate serve`` as a process: its start, its refusals, its output and its log."""

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import CLI, Configuration, new_key, workspace
from rig.gateway import Gateway
from rig.large import sampled
from rig.processes import run_to_its_end
from rig.raw_clients import RawClient, request_bytes
from rig.scripts import Gate, chunk, chunked, event, whole
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"
MODELS = request_bytes("GET", "/v1/models", [])
SECRET_PROMPT = "a prompt that only its provider may read"


# Starting.


def test_stdout_has_the_readiness_line_and_nothing_else(start_gateway: StartGateway) -> None:
    gateway = start_gateway(program=CLI)
    assert gateway.url.startswith("http://127.0.0.1:")
    with RawClient(gateway.url) as client:
        client.send(MODELS)
        assert client.read_answer().status == 200
    assert gateway.stop() == 0
    assert gateway.later_stdout() == []


def test_host_and_port_of_the_command_line_override_the_file(start_gateway: StartGateway) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = {"port": taken.getsockname()[1]}
        arguments = ("--host", "127.0.0.2", "--port", "0", "--admin-port", "0")
        gateway = start_gateway(
            sections={"listen": port, "admin": port | {"host": "127.0.0.3"}}, arguments=arguments
        )
    assert re.fullmatch(r"http://127\.0\.0\.3:[0-9]+", gateway.admin_url)
    assert not gateway.admin_url.endswith(f":{port['port']}")
    assert gateway.readiness().status_code == 200
    assert gateway.url.startswith("http://127.0.0.2:")
    with RawClient(gateway.url) as client:
        client.send(MODELS)
        assert client.read_answer().status == 200


def test_ipv6_addresses_are_served_in_brackets(start_gateway: StartGateway) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this machine has no IPv6 loopback: {error}")
    sections = {"listen": {"host": "::1"}, "admin": {"host": "::1", "port": 0}}
    gateway = start_gateway(sections=sections)
    assert gateway.url.startswith("http://[::1]:")
    assert httpx.get(f"{gateway.url}/v1/models", timeout=BOUND_S, trust_env=False).status_code == 200
    assert gateway.readiness().status_code == 200


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


def _refused(folder: Path, **changes: Any) -> str:
    """Start with ``changes``, which must fail. Return the one line with the reason."""
    ended = run_to_its_end(Configuration({}, {}, workspaces={"empty": workspace()}, **changes), folder)
    said = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert (ended.returncode, ended.stdout, len(said)) == (1, "", 1), ended
    assert "Traceback" not in ended.stderr
    return said[0]


def test_a_taken_port_is_one_clear_sentence(tmp_path: Path, taken_port: int) -> None:
    said = _refused(tmp_path, arguments=("--port", str(taken_port)))
    taken = re.escape(f"tollgate: can't listen on 127.0.0.1:{taken_port}: Address already in use by ")
    assert re.fullmatch(
        rf"{taken}.+ \(pid {os.getpid()}\): change \[listen\] port, or use serve --port", said
    )


SECOND_START = """
import sys
from addon.cli import main
from addon.runtime.listening import bind
first = bind("127.0.0.1", 0)
sys.argv += ["--port", str(first.getsockname()[1])]
main()
"""


def test_a_port_is_taken_while_another_gateway_is_still_starting(tmp_path: Path) -> None:
    said = _refused(tmp_path, program=("-c", SECOND_START))
    assert re.match(r"tollgate: can't listen on 127.0.0.1:[0-9]+: Address already in use by ", said)


def test_a_taken_admin_port_is_one_clear_sentence(tmp_path: Path, taken_port: int) -> None:
    said = _refused(tmp_path, sections={"admin": {"port": taken_port}})
    assert said.startswith(f"tollgate: can't listen on 127.0.0.1:{taken_port}: Address already in use by ")
    assert said.endswith(": change [admin] port, or use serve --admin-port")


REFUSED_SECTIONS = {
    "an unknown key": ({"limits": {"pro_rmp": 3}}, "limits.pro_rmp: unknown key"),
    "a Redis that is not there": (
        {"state": {"backend": "redis", "redis_url": "redis://:hunter2@127.0.0.1:1/0"}},
        "Redis at redis://127.0.0.1:1/0: ",
    ),
    "a Redis whose variable is not set": (
        {"state": {"backend": "redis", "redis_url": "env:REDIS_URL_THAT_IS_NOT_SET"}},
        "proxy.conf: state.redis_url: the environment variable that it names is not set",
    ),
    "no certificate": ({"listen": {"tls_certificate": "none.pem"}}, "listen.tls_certificate"),
    "a wrong certificate": ({"listen": {"tls_certificate": "proxy.conf"}}, "is not a PEM file"),
    "a ledger that is a folder": ({"paths": {"database": "catalog_data"}}, "catalog_data: can't be opened"),
    "workspaces that are a file": ({"paths": {"workspaces": "proxy.conf"}}, "proxy.conf"),
    "no catalog": ({"paths": {"catalog": "nowhere"}}, "nowhere"),
}


@sampled(every=3)
@pytest.mark.parametrize(("sections", "reason"), REFUSED_SECTIONS.values(), ids=REFUSED_SECTIONS)
def test_wrong_settings_are_one_clear_line(tmp_path: Path, sections: dict[str, Any], reason: str) -> None:
    said = _refused(tmp_path, sections=sections)
    assert said.startswith("tollgate: ")
    assert reason in said
    assert "hunter2" not in said


REFUSED_ARGUMENTS = {
    ("--port", "9", "--admin-port", "9"): "command line: admin-port: must differ from the public port",
    ("--host", ""): "host: must be a text of one line",
    (
        "--host",
        "203.0.113.1",
        "--port",
        "0",
    ): "can't listen on 203.0.113.1:0: Cannot assign requested address",
    ("--conf", "elsewhere.conf"): "elsewhere.conf: no such file",
    ("--conf", "."): "is a directory",
}


@sampled(every=3)
@pytest.mark.parametrize("arguments", REFUSED_ARGUMENTS, ids=" ".join)
def test_wrong_arguments_are_one_clear_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert REFUSED_ARGUMENTS[arguments] in _refused(tmp_path, arguments=arguments)


# Running.

REPORT_NODELAY = """
import os, socket
from addon.wire.hooks import Listener
stock = Listener.handle_stream
async def handle_stream(self, reader, writer):
    accepted = writer.get_extra_info("socket")
    # In one write: the log's thread may write between two.
    os.write(2, f"nodelay: {accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)}\\n".encode())
    await stock(self, reader, writer)
Listener.handle_stream = handle_stream
from addon.cli import main
main()
"""


def test_answers_do_not_wait_for_nagles_algorithm(start_gateway: StartGateway) -> None:
    gateway = start_gateway(program=("-c", REPORT_NODELAY))
    with RawClient(gateway.url) as client:
        client.send(MODELS)
        client.read_answer()
    assert gateway.stop() == 0
    assert "nodelay: 1" in gateway.stderr_lines


def test_only_the_admin_port_shows_health_and_readiness(gateway: Gateway) -> None:
    health = httpx.get(f"{gateway.admin_url}/healthz", timeout=BOUND_S, trust_env=False)
    assert (health.status_code, health.json()) == (200, {"status": "ok"})
    ready = gateway.readiness()
    checks = ready.json()["checks"]
    assert (ready.status_code, ready.json()["ready"]) == (200, True)
    # Keys and circuits depend on the calls of other tests.
    assert list(checks) == ["settings", "store", "drain", "platform_keys", "circuits", "ledger"]
    assert {checks[name] for name in ("settings", "store", "drain")} == {"ok"}
    for path in ("/healthz", "/readyz", "/metrics"):
        public = httpx.get(gateway.url + path, timeout=BOUND_S, trust_env=False)
        assert (public.status_code, public.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_is_one_log_line_without_body_or_key(
    gateway: Gateway, upstream: Upstream, stream: bool
) -> None:
    messages = [{"role": "user", "content": SECRET_PROMPT}]
    with RawClient(gateway.url) as client:
        client.send(gateway.chat_bytes(model="tester-small", messages=messages, stream=stream))
        answer = client.read_answer()
    call_id = answer.header("x-request-id")
    gateway.wait_for_log(lambda line: line.get("id") == call_id)
    [line] = [line for line in gateway.logs if line.get("id") == call_id]
    fields = {name: line[name] for name in ("event", "workspace", "key_id", "slug", "status", "stream")}
    assert fields == {
        "event": "call",
        "workspace": "acme",
        "key_id": "ci",
        "slug": "tester-small",
        "status": 200,
        "stream": stream,
    }
    assert 0 < line["first_byte_ms"] <= line["duration_ms"]
    gateway.assert_no_secret_logged([SECRET_PROMPT, '"hello"'])


def test_a_refusal_is_one_log_line_without_its_key(gateway: Gateway) -> None:
    wrong = new_key()
    refused = httpx.post(
        gateway.url + CHAT,
        headers={"Authorization": f"Bearer {wrong}"},
        json={},
        timeout=BOUND_S,
        trust_env=False,
    )
    call_id = refused.headers["x-request-id"]
    line = gateway.wait_for_log(lambda line: line.get("id") == call_id)
    assert (line["event"], line["status"], line["error_code"]) == ("refusal", 401, "invalid_api_key")
    assert [line for line in gateway.logs if line.get("id") == call_id] == [line]
    gateway.assert_no_secret_logged([wrong])


def test_ordinary_calls_log_no_warning(start_gateway: StartGateway, upstream: Upstream) -> None:
    gateway = start_gateway()
    with RawClient(gateway.url) as client:
        for request in (
            MODELS,
            gateway.chat_bytes(),
            gateway.chat_bytes(stream=True),
            gateway.chat_bytes(model="none"),
        ):
            client.send(request)
            client.read_answer()
        upstream.behave(whole({"error": {"message": "busy"}}, status=503))
        client.send(gateway.chat_bytes())
        assert client.read_answer().status == 503
        upstream.behave(chunked(event(chunk("one")), Gate(), finish=False))
        client.send(gateway.chat_bytes(stream=True))
        client.read_head()
        client.read_chunks_until(b"one")
    gateway.wait_for_row(lambda row: row["error_code"] == "client_disconnected")
    assert gateway.stop() == 0
    # The files of these tests name a provider without a key.
    of_calls = [line for line in gateway.logs if line.get("event") != "settings warning"]
    assert {line["level"] for line in of_calls} == {"info"}
    assert [line for line in gateway.stderr_lines if not line.startswith("{")] == []


def test_a_workspace_file_is_not_needed_to_start(tmp_path: Path, start_gateway: StartGateway) -> None:
    gateway = start_gateway(folder=tmp_path, workspaces={"empty": workspace()})
    names = ("settings", "store", "drain", "platform_keys", "circuits", "ledger")
    assert gateway.readiness().json() == {"ready": True, "checks": dict.fromkeys(names, "ok")}
    answer = httpx.post(
        gateway.url + CHAT,
        headers=gateway.headers,
        json={"messages": HELLO},
        timeout=BOUND_S,
        trust_env=False,
    )
    assert answer.status_code == 401
