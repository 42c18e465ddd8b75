"""The gateway as an addon of a plain ``mitmdump``: the same answers, the same ledger, and never an open proxy."""

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import new_key, workspace
from rig.gateway import Gateway
from rig.large import sampled
from rig.processes import ANY_PORT, MITMDUMP, MITMDUMP_SCRIPT, Mitmdump, with_default_port
from rig.raw_clients import RawClient, request_bytes
from rig.scripts import DONE, Gate, chunk, chunked, event
from rig.server_process import free_port
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def default_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def shared(start_gateway: StartGateway, default_port: int) -> Gateway:
    """A mitmdump with only the path of proxy.conf, and a timeout of a second for silent connections."""
    listen = {"host": "127.0.0.3", "port": 0}
    keys = {"ci": new_key(), "hops": new_key()}
    workspaces = {
        "acme": workspace(("ci", keys["ci"], True), default_model="tester-large"),
        "hops": workspace(("hops", keys["hops"], True), fallback_model="tester-small"),
    }
    made = start_gateway(
        kind=Mitmdump,
        program=with_default_port(default_port),
        arguments=("--set", "tcp_timeout=1"),
        sections={"listen": listen},
        workspaces=workspaces,
    )
    made.keys = keys
    return made


@pytest.fixture
def mitmdump(shared: Gateway, upstream: Upstream) -> Gateway:
    assert upstream.requests == []
    return shared


@pytest.fixture
def client(mitmdump: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=mitmdump.url, headers=mitmdump.headers, timeout=BOUND_S, trust_env=False
    ) as made:
        yield made


def test_a_whole_answer_and_its_row(mitmdump: Gateway, client: httpx.Client, upstream: Upstream) -> None:
    answer = client.post(CHAT, json={"messages": HELLO})
    assert (answer.status_code, answer.json()["model"]) == (200, "tester-large")
    row = mitmdump.wait_for_row(answer.headers["x-request-id"])
    assert (row["workspace"], row["status"], row["total_tokens"]) == ("acme", 200, 11)
    assert upstream.last.json()["model"] == "vendor/large-2026"
    assert mitmdump.key not in str(upstream.last.headers)


def test_a_streamed_answer_and_its_row(mitmdump: Gateway, client: httpx.Client) -> None:
    answer = client.post(CHAT, json={"messages": HELLO, "stream": True})
    assert answer.status_code == 200
    assert answer.text.endswith("data: [DONE]\n\n")
    models = {
        json.loads(found)["model"] for found in re.findall(r"^data: (\{.*)$", answer.text, re.MULTILINE)
    }
    assert models == {"tester-large"}
    row = mitmdump.wait_for_row(answer.headers["x-request-id"])
    assert (row["stream"], row["status"], row["total_tokens"]) == (1, 200, 11)


@pytest.mark.parametrize("stream", [False, True])
def test_a_fallback_serves_a_call_whose_provider_can_not_be_reached(
    mitmdump: Gateway, client: httpx.Client, upstream: Upstream, stream: bool
) -> None:
    body = {"model": "refusing-model", "messages": HELLO, "stream": stream}
    answer = client.post(CHAT, json=body, headers={"Authorization": f"Bearer {mitmdump.keys['hops']}"})
    assert (answer.status_code, answer.headers.get("x-gateway-fallback")) == (200, None if stream else "true")
    assert '"tester-small"' in answer.text
    assert upstream.last.json()["model"] == "vendor-small"
    row = mitmdump.wait_for_row(answer.headers["x-request-id"])
    assert (row["attempts"], row["fallback"], row["model_slug"]) == (2, 1, "tester-small")


def test_a_silent_stream_outlives_the_watchdog_of_mitmproxy(mitmdump: Gateway, upstream: Upstream) -> None:
    gate = Gate()
    upstream.behave(chunked(event(chunk("yes")), gate, event(chunk(finish="stop")), DONE))
    with RawClient(mitmdump.url) as raw:
        raw.send(mitmdump.chat_bytes(stream=True, user="silent"))
        raw.read_head()
        raw.read_chunks_until(b"yes")
        # Wait more than twice as long as mitmproxy does.
        time.sleep(2.2)
        gate.open()
        raw.read_chunks_until(b"[DONE]")
    row = mitmdump.wait_for_row(lambda row: row["end_user"] == "silent")
    assert (row["status"], row["error_code"]) == (200, None)


def test_the_catalog(client: httpx.Client, upstream: Upstream) -> None:
    rows = client.get("/v1/models").json()
    assert "tester-large" in {row["modelSlug"] for row in rows}
    assert upstream.requests == []


@pytest.mark.parametrize("model", ["refusing-model", "untrusted-model"])
def test_an_upstream_that_can_not_be_reached(client: httpx.Client, model: str) -> None:
    answer = client.post(CHAT, json={"messages": HELLO, "model": model})
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")


def test_an_upstream_behind_tls(client: httpx.Client) -> None:
    assert client.post(CHAT, json={"messages": HELLO, "model": "secure-model"}).status_code == 200


def test_a_wrong_key_and_a_wrong_path(client: httpx.Client, upstream: Upstream) -> None:
    wrong = client.post(CHAT, headers={"Authorization": f"Bearer {new_key()}"}, json={"messages": HELLO})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "invalid_api_key")
    lost = client.get("/nowhere")
    assert (lost.status_code, lost.json()["error"]["code"]) == (404, "not_found")
    assert upstream.requests == []


OPEN_PROXY_REQUESTS = {
    "mitmproxy's own page": (request_bytes("GET", "/", [], host="mitm.it"), 404),
    "mitmproxy's own page by its URL": (request_bytes("GET", "http://mitm.it/", []), None),
    "another host by its URL": (request_bytes("GET", "http://127.0.0.1:{port}/v1/models", []), None),
    "a tunnel": (request_bytes("CONNECT", "127.0.0.1:{port}", []), None),
}


@pytest.mark.parametrize(("request_", "status"), OPEN_PROXY_REQUESTS.values(), ids=OPEN_PROXY_REQUESTS)
def test_it_is_no_open_proxy(
    mitmdump: Gateway, upstream: Upstream, request_: bytes, status: int | None
) -> None:
    before = upstream.connections
    with RawClient(mitmdump.url) as raw:
        raw.send(request_.replace(b"{port}", str(upstream.port).encode()))
        answer = raw.read_answer()
    assert answer.status == status if status else 400 <= answer.status < 500
    assert answer.json()["error"]["code"]
    assert (upstream.requests, upstream.connections) == ([], before)


def test_clients_on_public_addresses_are_served_and_there_are_no_pages(start_gateway: StartGateway) -> None:
    report = (
        "import atexit, os\n"
        "from mitmproxy import ctx\n"
        # In one write: the log's thread may write between two.
        "names = 'block_global', 'onboarding', 'connection_strategy', 'rawtcp', 'websocket'\n"
        "line = lambda: ' '.join(str(getattr(ctx.options, n)) for n in names)\n"
        "atexit.register(lambda: os.write(2, f'{line()}\\n'.encode()))\n"
        "from mitmproxy.tools.main import mitmdump\n"
        "mitmdump()"
    )
    gateway = start_gateway(kind=Mitmdump, program=("-c", report), arguments=ANY_PORT)
    assert gateway.stop() == 0
    assert "False False lazy False False" in gateway.stderr_lines


def test_a_log_line_says_that_workers_of_the_file_do_not_apply(
    start_gateway: StartGateway, mitmdump: Gateway
) -> None:
    assert not any("workers" in line["message"] for line in mitmdump.logs)
    sections = {"listen": {"workers": 2}}
    gateway = start_gateway(kind=Mitmdump, program=MITMDUMP, arguments=ANY_PORT, sections=sections)
    line = gateway.wait_for_log(lambda line: "workers" in line["message"])
    assert (line["level"], gateway.children()) == ("warning", [])
    assert gateway.stop() == 0


# Where it listens.


def _listening_ports(pid: int) -> set[tuple[str, int]]:
    """Return the IPv4 and IPv6 addresses at which a process listens, from /proc."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # It may just have been closed.
            if found := re.match(r"socket:\[(\d+)\]", str(link.readlink())):
                inodes.add(found[1])
    listening = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, _, port = fields[1].partition(":")
                name = socket.inet_ntoa(bytes.fromhex(address)[::-1]) if table == "tcp" else address
                listening.add((name, int(port, 16)))
    return listening


def test_it_listens_only_at_the_address_of_the_listen_section(mitmdump: Gateway, default_port: int) -> None:
    url, admin = urlsplit(mitmdump.url), urlsplit(mitmdump.admin_url)
    assert url.hostname == "127.0.0.3"
    assert url.port != default_port
    assert _listening_ports(mitmdump.pid) == {(url.hostname, url.port), (admin.hostname, admin.port)}


@sampled(every=2)
@pytest.mark.parametrize(
    "arguments",
    [
        ("--listen-host", "127.0.0.2", "--listen-port", "0"),
        ("--mode", "reverse:http://tollgate.invalid:1@127.0.0.2:0"),
    ],
    ids=" ".join,
)
def test_an_address_of_the_command_line_overrides_the_file(
    start_gateway: StartGateway, arguments: tuple[str, ...]
) -> None:
    gateway = start_gateway(kind=Mitmdump, program=MITMDUMP_SCRIPT, arguments=arguments)
    url, admin = urlsplit(gateway.url), urlsplit(gateway.admin_url)
    assert url.hostname == "127.0.0.2"
    assert _listening_ports(gateway.pid) == {("127.0.0.2", url.port), (admin.hostname, admin.port)}
    answer = httpx.post(
        gateway.url + CHAT,
        headers=gateway.headers,
        json={"messages": HELLO},
        timeout=BOUND_S,
        trust_env=False,
    )
    assert answer.status_code == 200
    assert gateway.stop() == 0


# Logs.


def test_its_log_lines_are_those_of_serve(mitmdump: Gateway, client: httpx.Client) -> None:
    answer = client.post(CHAT, json={"messages": HELLO})
    call_id = answer.headers["x-request-id"]
    line = mitmdump.wait_for_log(lambda line: line.get("id") == call_id)
    assert (line["event"], line["workspace"], line["status"]) == ("call", "acme", 200)
    assert [line for line in mitmdump.logs if line.get("id") == call_id] == [line]
    mitmdump.assert_no_secret_logged()


def test_no_log_line_is_shown_again_unmasked(start_gateway: StartGateway) -> None:
    key = new_key()
    code = (
        "import logging, addon.gateway.lifecycle\n"
        "stock = addon.gateway.lifecycle.Lifecycle.start\n"
        "async def start(self):\n"
        f"    logging.getLogger('tollgate.test').warning('a provider said {key}')\n"
        "    await stock(self)\n"
        "addon.gateway.lifecycle.Lifecycle.start = start\n"
        "from mitmproxy.tools.main import mitmdump\n"
        "mitmdump()"
    )
    gateway = start_gateway(kind=Mitmdump, program=("-c", code), arguments=ANY_PORT)
    line = gateway.wait_for_log(lambda line: line["logger"] == "tollgate.test")
    assert line["message"].startswith("a provider said ")
    assert gateway.stop() == 0
    gateway.assert_no_secret_logged([key])
    assert not any("a provider said" in line for line in gateway.later_stdout())
