"""What is served on the public port, and to whom a request head must look like a request for it.

Decided from mitmproxy's request alone: no I/O.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from mitmproxy.http import Request

from policies.refusal import Refusal


class Endpoint(Enum):
    """A public path. The value is the path."""

    CHAT = "/v1/chat/completions"
    MODELS = "/v1/models"


METHODS: Mapping[Endpoint, tuple[str, ...]] = MappingProxyType(
    {Endpoint.CHAT: ("POST",), Endpoint.MODELS: ("GET", "HEAD")}
)


def endpoint_of(request: Request) -> Endpoint:
    """Return the endpoint that ``request`` is for. Raises Refusal ``bad_request``, ``not_found`` or
    ``method_not_allowed``. A request that names a host to be forwarded to is refused: this is no open proxy."""
    if request.method == "CONNECT":
        raise Refusal("method_not_allowed", "This is a gateway, not a proxy: CONNECT is not served.")
    if request.authority and not request.is_http2:
        raise Refusal("bad_request", "This is a gateway, not a proxy: send a path, not a whole URL.")
    endpoint = _endpoint_at(request.path)
    if endpoint is None:
        raise Refusal("not_found", "There is nothing here. Try POST /v1/chat/completions or GET /v1/models.")
    if request.method not in METHODS[endpoint]:
        allowed = " or ".join(METHODS[endpoint])
        raise Refusal("method_not_allowed", f"{endpoint.value} is served to {allowed} only.")
    return endpoint


def check_size(request: Request, max_request_bytes: int) -> None:
    """Refuse a body that says it is too large, before any of it is read."""
    length = request.headers.get("content-length", "")
    # A length that is no number was refused with the framing already.
    if length.isdecimal() and int(length) > max_request_bytes:
        raise Refusal("request_too_large", f"The body exceeds {max_request_bytes} bytes.")


def bearer_header(request: Request) -> str | None:
    """Return the Authorization header, or None where there is none. Raises Refusal for several: which is meant?"""
    values = request.headers.get_all("authorization")
    if len(values) > 1:
        raise Refusal("invalid_api_key", "Send one Authorization header, not several.")
    return values[0] if values else None


def allowed_methods(request: Request) -> str:
    """Return the value of an ``Allow`` header for the request's path."""
    endpoint = _endpoint_at(request.path)
    return ", ".join(METHODS[endpoint]) if endpoint else ""


def _endpoint_at(target: str) -> Endpoint | None:
    path = target.split("?", 1)[0]
    return next((endpoint for endpoint in Endpoint if endpoint.value == path), None)
