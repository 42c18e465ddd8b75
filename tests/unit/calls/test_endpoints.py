"""Endpoints: the method and the path of a request."""

import pytest

from addon.calls.endpoints import Endpoint, allowed_methods, endpoint_of, slug_in_path
from addon.text.http_heads import Headers, RequestHead
from policies.refusal import Refusal


def head(method: str = "GET", target: str = "/v1/models", *fields: tuple[str, str]) -> RequestHead:
    return RequestHead(method, target, "1.1", Headers(fields))


@pytest.mark.parametrize(
    ("method", "target", "endpoint", "slug"),
    [
        ("POST", "/v1/chat/completions", Endpoint.CHAT, None),
        ("POST", "/v1/chat/completions?beta=true", Endpoint.CHAT, None),
        ("GET", "/v1/models", Endpoint.MODELS, None),
        ("HEAD", "/v1/models", Endpoint.MODELS, None),
        ("GET", "/v1/models/gpt-4o-mini", Endpoint.MODEL, "gpt-4o-mini"),
        ("HEAD", "/v1/models/vendor%2Fmodel", Endpoint.MODEL, "vendor/model"),
        ("GET", "/v1/models/vendor/model", Endpoint.MODEL, "vendor/model"),
        ("HEAD", "/", Endpoint.PROBE, None),
        ("HEAD", "/api/hello", Endpoint.PROBE, None),
    ],
)
def test_a_served_path_has_its_endpoint(
    method: str, target: str, endpoint: Endpoint, slug: str | None
) -> None:
    assert endpoint_of(head(method, target)) is endpoint
    assert slug_in_path(head(method, target)) == slug


@pytest.mark.parametrize(
    ("method", "target", "code", "allowed"),
    [
        ("GET", "/v1/chat/completions", "method_not_allowed", "POST"),
        ("OPTIONS", "/v1/chat/completions", "method_not_allowed", "POST"),
        ("POST", "/v1/models", "method_not_allowed", "GET, HEAD"),
        ("DELETE", "/v1/models/gpt", "method_not_allowed", "GET, HEAD"),
        ("CONNECT", "example.org:443", "method_not_allowed", ""),
        ("OPTIONS", "*", "method_not_allowed", ""),
        ("POST", "/v1/chat/completions/", "not_found", ""),
        ("POST", "/V1/chat/completions", "not_found", ""),
        ("GET", "/v1/models/", "not_found", ""),
        ("GET", "/", "not_found", "HEAD"),
        ("GET", "/api/hello", "not_found", "HEAD"),
        ("HEAD", "/openai/", "not_found", ""),
    ],
)
def test_any_other_request_is_refused_with_the_methods_of_its_path(
    method: str, target: str, code: str, allowed: str
) -> None:
    with pytest.raises(Refusal) as refused:
        endpoint_of(head(method, target))
    assert refused.value.code == code
    assert allowed_methods(head(method, target)) == allowed
