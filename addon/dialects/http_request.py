"""The request to a provider, as plain values. Pure."""

from msgspec import Struct


class UpstreamRequest(Struct, frozen=True):
    """A whole HTTP request. ``headers`` are all that is sent: no header of the client's request is among them.

    ``unsent_fields`` names the fields of the chat body that are not sent at all.
    """

    url: str
    headers: tuple[tuple[str, str], ...]
    content: bytes
    unsent_fields: tuple[str, ...] = ()
