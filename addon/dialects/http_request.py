"""The request to a provider, as plain values. Pure."""

from datetime import datetime
from functools import cached_property, lru_cache
from typing import Final, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from addon.text.aws_signature import RequestSigner
from addon.text.http1_heads import encode_request_head

_PORTS: Final = {"http": 80, "https": 443}


class Address(Struct, frozen=True, gc=False):
    """A URL in the parts that a connection and the head of a request need."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    target: str
    authority: str


class UpstreamEndpoint(Struct, frozen=True, dict=True):
    """The URL and the headers of the requests to one target. Many calls share it.

    ``headers`` are all that is sent next to ``Host`` and ``Content-Length``: no header of the client's request is among
    them. ``signer`` adds a signature when the request is sent, if its provider wants one.
    """

    url: str
    headers: tuple[tuple[str, str], ...]
    signer: RequestSigner | None = None

    def __repr__(self) -> str:
        """Show nothing: the headers contain the key."""
        return "UpstreamEndpoint(...)"

    @cached_property
    def address(self) -> Address:
        """The parts of the URL."""
        return _address(self.url)

    @cached_property
    def head_start(self) -> bytes:
        """The head of a request up to its last header, ``Content-Length``. Raises ValueError."""
        return encode_request_head("POST", self.address.target, self.fields).removesuffix(b"\r\n")

    @cached_property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """``Host`` and the headers."""
        return ("host", self.address.authority), *self.headers


class UpstreamRequest(Struct, frozen=True):
    """A whole HTTP request. ``unsent_fields`` names the fields of the chat body that are not sent at all."""

    endpoint: UpstreamEndpoint
    content: bytes
    unsent_fields: tuple[str, ...] = ()

    def sign(self, now: datetime) -> bytes:
        """Return the header lines of the signature, for an endpoint that has a signer."""
        endpoint = self.endpoint
        if endpoint.signer is None:
            return b""
        signed = endpoint.signer.sign("POST", endpoint.address.target, endpoint.fields, self.content, now)
        return b"".join(b"%b: %b\r\n" % (name.encode(), value.encode()) for name, value in signed)

    @property
    def url(self) -> str:
        """The URL of the endpoint."""
        return self.endpoint.url

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers of the endpoint."""
        return self.endpoint.headers


@lru_cache(maxsize=1024)
def _address(url: str) -> Address:
    """Split a provider's URL. The settings have checked it."""
    parts = urlsplit(url)
    scheme: Literal["http", "https"] = "https" if parts.scheme == "https" else "http"
    host = parts.hostname or ""
    if ":" not in host:  # An IPv6 address stays as it is.
        host = host.encode("idna").decode("ascii")
    port = parts.port or _PORTS[scheme]
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    authority = f"[{host}]" if ":" in host else host
    if port != _PORTS[scheme]:
        authority = f"{authority}:{port}"
    return Address(scheme, host, port, target, authority)
