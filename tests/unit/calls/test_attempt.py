"""One attempt: what it can't be made without, and where it is sent."""

from typing import Any

import pytest
from msgspec import structs
from pydantic import SecretStr
from rig.ledger import answered_exchange, upstream_attempt

from addon.calls.attempt import UpstreamAttempt, origin_of, request_head
from addon.dialects.http_request import UpstreamEndpoint, UpstreamRequest
from addon.upstream.origin import Origin
from policies.call_stages import IllegalMoveError, Stage
from policies.family import Family
from policies.model import Model
from policies.prices import Prices
from policies.provider import Provider
from policies.route import Target

FREE = Prices(0, 0, 0)


def attempt_at(
    url: str, mode: Any = "payg", *, builtin: bool = False, content: bytes = b"{}"
) -> UpstreamAttempt:
    """Return an attempt whose request goes to ``url``."""
    provider = Provider("TESTER", url, "openai", (), builtin=builtin)
    model = Model("m", provider, "m-2026", Family("chat"), FREE, FREE, 100, False, True)
    request = UpstreamRequest(UpstreamEndpoint(url, (("authorization", "Bearer fake"),)), content)
    target = Target(model, mode, SecretStr("fake"))
    return upstream_attempt(answered_exchange(Family("chat")), target=target, request=request)


def test_an_attempt_can_not_be_made_without_its_hold_key_and_request() -> None:
    required = {field.name for field in structs.fields(UpstreamAttempt) if field.required}
    assert {"target", "key_target", "hold", "sanitized", "request"} <= required
    made = upstream_attempt(answered_exchange(Family("chat")))
    others = {name: getattr(made, name) for name in required - {"hold"}}
    with pytest.raises(TypeError, match="hold"):
        UpstreamAttempt(**others)


def test_a_call_can_not_be_dispatched_without_the_hold_of_its_next_attempt() -> None:
    exchange = answered_exchange(Family("chat"), stage=Stage.HELD, next_hold=None)
    with pytest.raises(IllegalMoveError, match="nothing is held"):
        exchange.dispatch()


@pytest.mark.parametrize(
    ("url", "origin", "target", "host"),
    [
        ("https://api.example/v1/chat", Origin("https", "api.example", 443), "/v1/chat", "api.example"),
        ("http://api.example/v1", Origin("http", "api.example", 80), "/v1", "api.example"),
        ("https://api.example:443/v1", Origin("https", "api.example", 443), "/v1", "api.example"),
        ("https://api.example:8443/v1", Origin("https", "api.example", 8443), "/v1", "api.example:8443"),
        ("http://127.0.0.1:443", Origin("http", "127.0.0.1", 443), "/", "127.0.0.1:443"),
        ("https://api.example/v1?a=b&c", Origin("https", "api.example", 443), "/v1?a=b&c", "api.example"),
        ("http://[::1]:9000/v1", Origin("http", "::1", 9000), "/v1", "[::1]:9000"),
        ("https://[2001:db8::1]/v1", Origin("https", "2001:db8::1", 443), "/v1", "[2001:db8::1]"),
        (
            "https://b\u00fccher.example/v1",
            Origin("https", "xn--bcher-kva.example", 443),
            "/v1",
            "xn--bcher-kva.example",
        ),
    ],
)
def test_a_url_becomes_an_origin_and_the_head_of_a_request(
    url: str, origin: Origin, target: str, host: str
) -> None:
    attempt = attempt_at(url, content=b"four")
    assert origin_of(attempt.target, attempt.request, "acme") == origin
    assert request_head(attempt.request, attempt.trace_fields) == (
        f"POST {target} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer fake\r\ncontent-length: 4\r\n\r\n"
    ).encode("ascii")


@pytest.mark.parametrize(("mode", "tenant"), [("payg", ""), ("byok", "acme")])
def test_only_calls_with_a_customers_own_key_have_connections_of_their_own(mode: str, tenant: str) -> None:
    attempt = attempt_at("https://api.example/v1", mode)
    assert origin_of(attempt.target, attempt.request, "acme").tenant == tenant


@pytest.mark.parametrize("builtin", [True, False])
def test_only_a_builtin_provider_is_reached_without_the_egress_proxy(builtin: bool) -> None:
    attempt = attempt_at("http://127.0.0.1:9000/v1", builtin=builtin)
    assert origin_of(attempt.target, attempt.request, "acme").is_direct is builtin
