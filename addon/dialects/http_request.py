"""What is sent upstream, as plain values. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """A whole HTTP request. ``headers`` are all that goes: nothing of the client's request is among them.

    ``left_out`` names the fields of the chat body that it bears nothing of.
    """

    url: str
    headers: tuple[tuple[str, str], ...]
    content: bytes
    left_out: tuple[str, ...] = ()
