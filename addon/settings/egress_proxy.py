"""The egress proxy: its setting and its CONNECT request. Pure."""

import base64
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from pydantic import SecretStr

from addon.text.urls import split_url

DEFAULT_PORT: Final = 80
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")


@dataclass(frozen=True, slots=True)
class EgressProxy:
    """A proxy that connects to providers for the gateway. ``authorization`` is the value of ``Proxy-Authorization``."""

    host: str
    port: int
    authorization: SecretStr | None = field(default=None, repr=False)

    def make_connect_request(self, host: str, port: int) -> bytes:
        """Return the request for a connection to ``host`` and ``port``."""
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
        if self.authorization is not None:
            lines.append(f"Proxy-Authorization: {self.authorization.get_secret_value()}")
        return "\r\n".join([*lines, "", ""]).encode("ascii")


def parse_proxy(url: str) -> EgressProxy:
    """Return the proxy at ``http://user:password@host:port``; user and password are optional.

    Raises ValueError, whose message shows no part of ``url``.
    """
    parts = split_url(url, ("http",), "must begin with http://: the gateway sends CONNECT without TLS")
    host = parts.hostname or ""
    if not _HOST.fullmatch(host):
        raise ValueError("must name a host")
    if parts.path not in ("", "/") or "?" in url or "#" in url:
        raise ValueError("must not hold a path, a query or a fragment")
    return EgressProxy(
        host, DEFAULT_PORT if parts.port is None else parts.port, _make_authorization(parts.netloc)
    )


def _make_authorization(netloc: str) -> SecretStr | None:
    credentials, separator, _ = netloc.rpartition("@")
    if not separator:
        return None
    user, _, password = credentials.partition(":")
    words = f"{unquote(user)}:{unquote(password)}".encode()
    return SecretStr("Basic " + base64.b64encode(words).decode("ascii"))
