"""Where an attempt is sent to, and the head of its request as bytes. Pure."""

from functools import lru_cache
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from addon.calls.attempt import UpstreamAttempt
from addon.text.http1 import encode_request_head
from addon.upstream.origin import Origin

_PORTS: Final = {"http": 80, "https": 443}


class _Address(NamedTuple):
    scheme: Literal["http", "https"]
    host: str
    port: int
    target: str
    authority: str


def origin_of(attempt: UpstreamAttempt, workspace: str) -> Origin:
    """Return where an attempt goes. Calls with a customer's own key share no connection with anyone else's."""
    address = _address(attempt.request.url)
    tenant = workspace if attempt.target.mode == "byok" else ""
    is_direct = attempt.target.model.provider.builtin
    return Origin(address.scheme, address.host, address.port, tenant, is_direct)


def request_head(attempt: UpstreamAttempt) -> bytes:
    """Return the head of an attempt's request: what its dialect asks for, ``Host`` and ``Content-Length``."""
    address, request = _address(attempt.request.url), attempt.request
    length = ("content-length", str(len(request.content)))
    return encode_request_head(
        "POST", address.target, [("host", address.authority), *request.headers, length]
    )


@lru_cache(maxsize=1024)
def _address(url: str) -> _Address:
    """Take a provider's URL apart; settings have checked it."""
    parts = urlsplit(url)
    scheme: Literal["http", "https"] = "https" if parts.scheme == "https" else "http"
    host = (
        (parts.hostname or "").encode("idna").decode("ascii")
        if ":" not in (parts.hostname or "")
        else parts.hostname or ""
    )
    port = parts.port or _PORTS[scheme]
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    shown = f"[{host}]" if ":" in host else host
    return _Address(scheme, host, port, target, shown if port == _PORTS[scheme] else f"{shown}:{port}")
