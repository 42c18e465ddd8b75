"""Calls as flows in a real mitmweb: what its page shows, and what a replay does."""

import json
import ssl
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import PROVIDER_KEY
from rig.gateway import Gateway
from rig.processes import ANY_PORT, MITMWEB, Mitmdump
from rig.server_process import free_port
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"
PASSWORD = "let-me-look"
XSRF = "ab" * 16


class Web:
    """mitmweb's own interface, as its page uses it."""

    def __init__(self, gateway: Gateway, port: int) -> None:
        self.gateway = gateway
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {PASSWORD}", "X-XSRFToken": XSRF},
            cookies={"_mitmproxy_xsrf": XSRF},
            timeout=BOUND_S,
            trust_env=False,
        )
        gateway.wait_until(self._is_up)

    def _is_up(self) -> bool:
        try:
            return self._client.get("/flows").is_success
        except httpx.TransportError:
            return False

    def close(self) -> None:
        self._client.close()

    def get(self, path: str) -> httpx.Response:
        return self._client.get(path).raise_for_status()

    def flows(self) -> list[dict[str, Any]]:
        """Return every flow, oldest first."""
        listed: list[dict[str, Any]] = self.get("/flows").json()
        return listed

    def flow_of(self, answer: httpx.Response) -> dict[str, Any]:
        """Return the flow of the call with this answer, once it has ended."""
        field = ["x-request-id", answer.headers["x-request-id"]]
        return self.flow(lambda one: field in one.get("response", {}).get("headers", ()))

    def flow(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the one flow that is wanted, once it has its answer."""
        self.gateway.wait_until(lambda: any(wanted(one) and _has_ended(one) for one in self.flows()))
        (found,) = [one for one in self.flows() if wanted(one)]
        return found

    def replay(self, flow_id: str) -> None:
        """Press *Replay*."""
        self._client.post(f"/flows/{flow_id}/replay").raise_for_status()


def _has_ended(flow: dict[str, Any]) -> bool:
    return "error" in flow or flow.get("response", {}).get("timestamp_end") is not None


BEHIND_A_PORT_MAPPING = (
    "-c",
    "from mitmproxy.addons.proxyserver import Proxyserver\n"
    "Proxyserver.server_connect = lambda *_: None\n"
    "from mitmproxy.tools.main import mitmweb\n"
    "mitmweb()",
)
"""A mitmweb that does not know that an address is its own, as in a container."""


def _start_web(start_gateway: StartGateway, program: tuple[str, ...] = MITMWEB, **changes: Any) -> Web:
    port = free_port()
    options = (f"web_port={port}", "web_open_browser=false", f"web_password={PASSWORD}")
    arguments = (*ANY_PORT, *(word for option in options for word in ("--set", option)))
    gateway = start_gateway(kind=Mitmdump, program=program, arguments=arguments, **changes)
    return Web(gateway, port)


@pytest.fixture(scope="module")
def shared_web(start_gateway: StartGateway) -> Iterator[Web]:
    web = _start_web(start_gateway, BEHIND_A_PORT_MAPPING)
    yield web
    web.close()


@pytest.fixture(scope="module")
def secure_web(start_gateway: StartGateway, secure_sections: dict[str, Any]) -> Iterator[Web]:
    web = _start_web(start_gateway, sections=secure_sections)
    yield web
    web.close()


@pytest.fixture
def web(shared_web: Web, upstream: Upstream) -> Web:
    assert upstream.requests == []
    return shared_web


def _call(web: Web, **body: Any) -> httpx.Response:
    sent = {"messages": HELLO} | body
    return httpx.post(
        web.gateway.url + CHAT, headers=web.gateway.headers, json=sent, timeout=BOUND_S, trust_env=False
    )


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_mitmweb_shows_a_call(web: Web, stream: bool) -> None:
    answer = _call(web, stream=stream)
    flow = web.flow_of(answer)
    url = urlsplit(web.gateway.url)
    assert flow["server_conn"]["address"] == [url.hostname, url.port]
    assert dict(flow["request"]["headers"])["authorization"] == "Bearer ***"
    assert (flow["response"]["status_code"], flow["intercepted"]) == (200, False)
    assert flow["comment"].startswith("acme, tester-large, TESTER, 11 tokens (9 in, 2 out), ")
    shown = web.get(f"/flows/{flow['id']}/response/content.data")
    assert shown.content == answer.content
    asked = json.loads(web.get(f"/flows/{flow['id']}/request/content.data").content)
    assert (asked["messages"], asked["stream"]) == (HELLO, stream)


def test_a_replay_reaches_the_gateway_alone_and_has_no_key(web: Web, upstream: Upstream) -> None:
    flow = web.flow_of(_call(web))
    calls, rows = len(upstream.requests), len(web.gateway.ledger_rows())
    known = {one["id"] for one in web.flows()}
    web.replay(flow["id"])
    answered = web.flow(lambda one: one["id"] == flow["id"])
    assert (answered["is_replay"], answered["response"]["status_code"]) == ("request", 401)
    # To the gateway it is a request like any other, so it is shown as another flow.
    refused = web.flow(lambda one: one["id"] not in known)
    assert refused["comment"].startswith("error invalid_api_key")
    assert (len(upstream.requests), len(web.gateway.ledger_rows())) == (calls, rows)


def test_mitmproxy_itself_refuses_a_replay_where_it_knows_its_own_address(
    secure_web: Web, trusting: ssl.SSLContext, upstream: Upstream
) -> None:
    flow = secure_web.flow_of(_call_over_tls(secure_web, trusting, http2=False))
    secure_web.replay(flow["id"])
    ended = secure_web.flow(lambda one: one["id"] == flow["id"] and "error" in one)
    assert (ended["is_replay"], "response" in ended) == ("request", False)
    assert len(upstream.requests) == 1


def test_no_line_of_ours_and_no_key_is_on_mitmwebs_page(web: Web) -> None:
    answer = _call(web)
    web.flow_of(answer)
    web.gateway.wait_for_log(lambda line: line.get("id") == answer.headers["x-request-id"])
    said = [line["message"] for line in web.get("/events").json()]
    assert any("client connect" in line for line in said)
    # Each line begins with the time.
    ours = [line.partition("] ")[2] for line in said]
    assert not [one for one in ours if one in ("call", "refusal") or one.startswith("admin listening")]
    shown = json.dumps([said, web.flows()])
    assert not [one for one in (web.gateway.key, PROVIDER_KEY) if one in shown]


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_mitmweb_shows_calls_over_tls(
    secure_web: Web, trusting: ssl.SSLContext, upstream: Upstream, http2: bool
) -> None:
    web = secure_web
    answer = _call_over_tls(web, trusting, http2=http2)
    assert (answer.status_code, len(upstream.requests)) == (200, 1)
    flow = web.flow_of(answer)
    assert (flow["request"]["scheme"], flow["request"]["http_version"]) == ("https", _version(http2))
    assert flow["client_conn"]["tls_established"]
    assert flow["comment"].startswith("acme, tester-large, TESTER, 11 tokens")


def _call_over_tls(web: Web, trusting: ssl.SSLContext, *, http2: bool) -> httpx.Response:
    url = web.gateway.url.replace("http://", "https://")
    with httpx.Client(verify=trusting, http2=http2, trust_env=False, timeout=BOUND_S) as client:
        return client.post(url + CHAT, headers=web.gateway.headers, json={"messages": HELLO})


def _version(http2: bool) -> str:
    return "HTTP/2.0" if http2 else "HTTP/1.1"
