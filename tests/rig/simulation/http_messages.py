"""A strict reader of HTTP/1.1 messages, for the simulated clients and providers."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

_LINE = re.compile(r"HTTP/1\.1 [1-5]\d\d .*|[A-Z]+ \S+ HTTP/1\.1")


class BrokenMessage(Exception):  # noqa: N818
    """The peer ended a message before its end, or its framing is broken."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first line and the fields, with names in lower case. A repeated name is an error."""

    line: str
    fields: dict[str, str]

    @property
    def status(self) -> int:
        """The status of an answer."""
        return int(self.line.split(" ", 2)[1])


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Return the next head, or None if the peer ended before one began. Raise BrokenMessage."""
    try:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BrokenMessage("the head broke off") from None
        return None
    line, *lines = text[:-4].split("\r\n")
    if not _LINE.fullmatch(line):
        raise BrokenMessage("not HTTP")
    fields: dict[str, str] = {}
    for name, _, value in (one.partition(":") for one in lines):
        if name.lower() in fields:
            raise BrokenMessage(f"two fields {name}")
        fields[name.lower()] = value.strip()
    return Head(line, fields)


async def body_pieces(reader: asyncio.StreamReader, head: Head) -> AsyncIterator[bytes]:
    """Yield the body as it arrives, up to its framed end. A chunk is one piece. Raise BrokenMessage."""
    try:
        if "content-length" in head.fields:
            if left := int(head.fields["content-length"]):
                yield await reader.readexactly(left)
        elif head.fields.get("transfer-encoding") == "chunked":
            while size := int(await reader.readuntil(b"\r\n"), 16):
                yield await reader.readexactly(size)
                await _expect(reader, b"\r\n")
            await _expect(reader, b"\r\n")
        else:
            while piece := await reader.read(65_536):
                yield piece
    except (asyncio.IncompleteReadError, ValueError) as error:
        raise BrokenMessage(f"the body broke off: {type(error).__name__}") from None


def chunk(data: bytes) -> bytes:
    """Return a chunk with ``data``. Without data it is the last chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


async def _expect(reader: asyncio.StreamReader, expected: bytes) -> None:
    if await reader.readexactly(len(expected)) != expected:
        raise ValueError
