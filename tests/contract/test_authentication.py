"""Contract, "Authentication": the keys that a request is refused for, and the one header that carries a key."""

import json

import httpx
import pytest
from conftest import HELLO
from rig.bounds import BOUND_S
from rig.configuration import key_hash
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.raw_clients import RawClient, request_bytes
from rig.upstream import Upstream

PATH = "/v1/chat/completions"
AUTHORIZATIONS = {
    "none": None,
    "empty": "",
    "no scheme": "{key}",
    "Basic": "Basic {key}",
    "Token": "Token {key}",
    "Bearer alone": "Bearer",
    "Bearer and nothing": "Bearer ",
    "an unknown key": "Bearer tg_" + "0" * 40,
    "not a key": "Bearer sk-0000",
    "a letter more": "Bearer {key}0",
    "a letter less": "Bearer {short}",
    "another case": "Bearer {swapped}",
    "two keys": "Bearer {key} {key}",
    "a comma": "Bearer {key},",
    "a retired key": "Bearer {retired}",
    "the key's hash": "Bearer {hash}",
    "very long": "Bearer " + "x" * 20_000,
}
GOOD = json.dumps({"messages": HELLO}).encode()


@pytest.mark.parametrize("name", AUTHORIZATIONS)
def test_a_request_without_an_active_key_gets_401(gateway: Gateway, upstream: Upstream, name: str) -> None:
    key = gateway.key
    names = {
        "key": key,
        "short": key[:-1],
        "swapped": key.swapcase(),
        "retired": gateway.keys["retired"],
        "hash": key_hash(key),
    }
    template = AUTHORIZATIONS[name]
    headers = [] if template is None else [("Authorization", template.format(**names))]
    # Sent as raw bytes, because an HTTP client would not send some of these.
    with RawClient(gateway.url) as raw:
        raw.send(request_bytes("POST", PATH, [*headers, ("Content-Type", "application/json")], GOOD))
        answer = raw.read_answer()
    assert_error(answer, 401, "invalid_api_key", "authentication_error")
    assert upstream.requests == []
    assert key.encode() not in answer.body


@pytest.mark.parametrize("headers", [{"X-Api-Key": "{key}"}, {"Cookie": "key={key}"}, {"Api-Key": "{key}"}])
def test_only_the_authorization_header_carries_the_key(gateway: Gateway, headers: dict[str, str]) -> None:
    filled = {name: value.format(key=gateway.key) for name, value in headers.items()}
    answer = httpx.post(
        gateway.url + PATH, json={"messages": HELLO}, headers=filled, timeout=BOUND_S, trust_env=False
    )
    assert_error(answer, 401, "invalid_api_key", "authentication_error")
