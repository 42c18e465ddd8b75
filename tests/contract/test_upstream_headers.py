"""Contract: the headers that a provider receives. A query of the client does not reach it."""

import json

import httpx
from conftest import Chat
from rig.configuration import PROVIDER_KEY
from rig.gateway import Gateway
from rig.upstream import Upstream

GOES_UPSTREAM = {
    "host",
    "authorization",
    "content-type",
    "content-length",
    "accept",
    "accept-encoding",
    "user-agent",
    "connection",
}
CLIENT_HEADERS = {
    "Cookie": "session=private",
    "X-Custom": "private",
    "X-Api-Key": "private",
    "X-Forwarded-For": "203.0.113.9",
    "Forwarded": "for=203.0.113.9",
    "Via": "1.1 private",
    "Referer": "https://private.test/",
    "Origin": "https://private.test",
    "User-Agent": "private/1",
    "OpenAI-Organization": "private",
    "X-Stainless-Lang": "private",
    "X-Request-Id": "private",
    "Proxy-Authorization": "Basic private",
    "TE": "trailers",
    "Accept-Encoding": "gzip, br",
    "Accept-Language": "private",
    "Idempotency-Key": "private",
}


def test_only_the_allowed_headers_go_upstream(client: httpx.Client, upstream: Upstream) -> None:
    body = {"messages": [{"role": "user", "content": "hello"}]}
    answer = client.post("/v1/chat/completions", json=body, headers=CLIENT_HEADERS)
    assert answer.status_code == 200
    received = upstream.last
    assert received.header_names <= GOES_UPSTREAM
    assert "private" not in json.dumps(received.headers)
    assert received.header("accept-encoding") in (None, "identity")


def test_the_providers_key_goes_upstream_and_the_clients_does_not(
    chat: Chat, gateway: Gateway, upstream: Upstream
) -> None:
    assert chat().status_code == 200
    received = upstream.last
    assert received.header("authorization") == f"Bearer {PROVIDER_KEY}"
    assert received.header("host") == f"127.0.0.1:{upstream.port}"
    assert (received.method, received.target) == ("POST", "/v1/chat/completions")
    assert received.header("content-type") == "application/json"
    assert gateway.key not in f"{received.headers}{received.body!r}"


def test_a_query_of_the_client_does_not_reach_the_upstream(client: httpx.Client, upstream: Upstream) -> None:
    client.post(
        "/v1/chat/completions?api-version=1&key=private",
        json={"messages": [{"role": "user", "content": "x"}]},
    )
    assert all(request.target == "/v1/chat/completions" for request in upstream.requests)
