"""The syntax of HTTP/1.1 heads, of requests and of answers: strict parsing, the framing of bodies, encoding. Pure.

A head is decoded once, and one compiled expression finds all of its fields. Syntax that two readers could understand in
different ways is an error. Examples: bare LF, folded lines, a space before a colon, two lengths, a coding other than
``chunked``.
"""

import re
from collections.abc import Callable, Iterable
from http import HTTPStatus

from msgspec import Struct

from addon.text.http_heads import Field, Headers, RequestHead, ResponseHead

MAX_HEAD_BYTES = 65_536
"""The longest head that a caller may collect: request or status line, fields, and the blank line."""

MAX_HEAD_LINES = 500
"""The most lines of a request's head. Each costs objects of 120 bytes here, however short it is."""

CHUNK = b"%x\r\n%b\r\n"
"""One chunk: the number of its bytes, which is not 0, and the bytes."""

LAST_CHUNK = b"0\r\n\r\n"
"""The end of a chunked body without trailers."""

TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]"  # noqa: S105  (a character of a token, RFC 9110, 5.6.2)
VALUE = r"[^\x00-\x08\x0a-\x1f\x7f]"
"""A character of a field's value: no control character but the tab."""

HOST = r"(?:\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9\-._~!$&'()*+;=]++|%[0-9A-Fa-f]{2})++)(?::[0-9]{0,5})?"
"""A host with an optional port (RFC 3986). Without commas, because intermediaries join two fields with one."""

_FIELD = re.compile(rf"\r\n({TOKEN}++):[ \t]*+([^\r]*+)(?=\r\n)")
_HEAD_BYTES = bytes({*b"\t\r\n", *range(0x20, 0x100)} - {0x7F})
_REQUEST_LINE = re.compile(rf"({TOKEN}++) ([!-~]++) HTTP/(1\.[01])\r\n")
_STATUS_LINE = re.compile(rf"HTTP/(1\.[01]) ([1-9][0-9][0-9])(?: {VALUE}*+)?\r\n")
_ABSOLUTE = re.compile(r"https?://([^/?]*+)(.*)", re.IGNORECASE)
_HOST = re.compile(HOST)
_LENGTH = re.compile(r"0|[1-9][0-9]{0,19}")
_BARE_END = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")
_BLANK_LINES = re.compile(rb"(?:\r\n)*+")
_SENT_FIELDS = re.compile(rf"(?:{TOKEN}++: {VALUE}*+\r\n)*+\r\n")
_TOKEN = re.compile(f"{TOKEN}+")
_KEEP_ALIVE_TIMEOUT = re.compile(r"(?:^|[ ,;])timeout=([0-9]{1,9})(?![0-9])", re.IGNORECASE | re.ASCII)
_TARGET = re.compile(r"[!-~]+")
_PATH = re.compile("/[^#]*+")

_BODILESS_STATUSES = frozenset({*range(100, 200), 204, 304})
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}


class HttpSyntaxError(ValueError):
    """The peer's bytes are not valid HTTP/1.1. The message holds nothing that the peer sent."""


class ContentLengthError(HttpSyntaxError):
    """A Content-Length from 2**63 to 2**64 - 1."""


class Framing(Struct, frozen=True, gc=False):
    """Where a body ends: after ``length`` bytes, with its last chunk, or when the peer closes. One of the three."""

    length: int | None
    is_chunked: bool = False
    until_close: bool = False


_NO_BODY = Framing(0)
_CHUNKED = Framing(None, is_chunked=True)
_UNTIL_CLOSE = Framing(None, until_close=True)


def skip_blank_lines(buffer: bytes | bytearray, start: int = 0) -> int:
    """Return the index of the first byte from ``start`` on that is not part of an empty line (CRLF)."""
    found = _BLANK_LINES.match(buffer, start)
    return found.end() if found else start


def find_head_end(buffer: bytes | bytearray, start: int = 0) -> int:
    """Return the index after the CRLF CRLF that ends a head, or -1 when it has not come yet.

    ``start`` is where the head begins, or three bytes before the bytes that came since the last search. Raises
    HttpSyntaxError when an unfinished head holds a bare CR or LF: there is no need to wait for its end.
    """
    found = buffer.find(b"\r\n\r\n", start)
    if found >= 0:
        return found + 4
    if _BARE_END.search(buffer, start):
        raise HttpSyntaxError("a line of the head doesn't end in CRLF")
    return -1


def parse_request_head(raw: bytes) -> RequestHead:
    """Return the head of a request; ``raw`` is all of it, from the request line to the blank line.

    The authority of an absolute target is split off, and must equal ``Host``. Any token is a method. Raises
    HttpSyntaxError.
    """
    line, headers = _parse_lines(raw, _REQUEST_LINE.match)
    if line is None:
        raise HttpSyntaxError("the request line is malformed, or its version is not HTTP/1.0 or HTTP/1.1")
    method, target, version = line.groups()
    host = headers.get("host")
    if host is None and version == "1.1":
        raise HttpSyntaxError("a request has exactly one Host")
    # Two of them are joined by a comma, which is in no host.
    if host is not None and not _HOST.fullmatch(host):
        raise HttpSyntaxError("Host is not one host with an optional port")
    authority = ""
    if not _PATH.fullmatch(target) or method == "CONNECT":
        target, authority = _split_target(method, target)
    if authority and host is not None and authority.lower() != host.lower():
        raise HttpSyntaxError("the target's authority differs from Host")
    return RequestHead(method, target, "1.1" if version == "1.1" else "1.0", headers, authority)


def parse_response_head(raw: bytes) -> ResponseHead:
    """Return the head of an answer; ``raw`` is all of it, from the status line to the blank line.

    The status is any from 100 to 999; one above 599 means a failure of the server. Raises HttpSyntaxError.
    Source: RFC 9110, 15, "Status Codes".
    """
    line, headers = _parse_lines(raw, _STATUS_LINE.match)
    if line is None:
        raise HttpSyntaxError("the status line is malformed, or its version or status is unknown")
    return ResponseHead(int(line[2]), headers, "1.1" if line[1] == "1.1" else "1.0")


def _parse_lines(
    raw: bytes, match_first_line: Callable[[str], re.Match[str] | None]
) -> tuple[re.Match[str] | None, Headers]:
    """Return the match of the first line of a whole head, or None, and the fields after it."""
    text = raw.decode("latin-1")
    line = match_first_line(text)
    if line is None:
        return None, Headers()
    first = line.end() - 2
    found = _FIELD.findall(text, first)
    # Each match begins with one CRLF and ends before another, and two more end the head. So with this number of LFs,
    # each line is a field, and none ends in a bare LF.
    if not text.endswith("\r\n\r\n") or text.count("\n", first) != len(found) + 2:
        raise HttpSyntaxError("a header line is malformed")
    if raw.translate(None, _HEAD_BYTES):
        raise HttpSyntaxError("a header line holds control characters")
    if " \r\n" in text or "\t\r\n" in text:
        found = _strip_values(found)
    return line, Headers([(name.lower(), value) for name, value in found])


def _strip_values(found: list[Field]) -> list[Field]:
    """Return fields without the blanks after their values. A tab after a coding is an error: readers differ on it."""
    if any(value.endswith("\t") and name.lower() == "transfer-encoding" for name, value in found):
        raise HttpSyntaxError("Transfer-Encoding ends in a tab")
    return [(name, value.rstrip(" \t")) for name, value in found]


def _split_target(method: str, target: str) -> tuple[str, str]:
    """Return the path with its query, and the authority of an absolute target, else an empty text.

    For targets that are not plainly a path: see ``_PATH``.
    """
    if "#" in target:
        raise HttpSyntaxError("the target has a fragment")
    if method == "CONNECT":
        if not _HOST.fullmatch(target):
            raise HttpSyntaxError("the target of CONNECT is not a host with a port")
        return target, ""
    if target == "*":
        return target, ""
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None or not _HOST.fullmatch(absolute[1]):
        raise HttpSyntaxError("the target is neither a path nor an absolute URL of http or https")
    path = absolute[2]
    return path if path.startswith("/") else f"/{path}", absolute[1]


def request_framing(head: RequestHead) -> Framing:
    """Return where the body of a request ends. Raises HttpSyntaxError when its fields are ambiguous or unknown."""
    return _framing_of(head) or _NO_BODY


def response_framing(head: ResponseHead, request_method: str) -> Framing:
    """Return where the body of an answer to ``request_method`` ends.

    Raises HttpSyntaxError when its fields are ambiguous or unknown, even if the answer can have no body.
    """
    framing = _framing_of(head)
    if request_method == "HEAD" or head.status in _BODILESS_STATUSES:
        return _NO_BODY
    if request_method == "CONNECT" and 200 <= head.status < 300:
        return _NO_BODY
    return framing or _UNTIL_CLOSE


def _framing_of(head: RequestHead | ResponseHead) -> Framing | None:
    # Two values of one field are joined by a comma, and so are neither a length nor "chunked".
    text, coding = head.headers.get("content-length"), head.headers.get("transfer-encoding")
    if coding is not None:
        if text is not None:
            raise HttpSyntaxError("both Content-Length and Transfer-Encoding")
        if coding.lower() != "chunked" or head.version != "1.1":
            raise HttpSyntaxError("Transfer-Encoding is not chunked, or the version is not HTTP/1.1")
        return _CHUNKED
    if text is None:
        return None
    if not _LENGTH.fullmatch(text) or (length := int(text)) >= 2**64:
        raise HttpSyntaxError("Content-Length is not one number of bytes")
    if length >= 2**63:
        raise ContentLengthError("Content-Length is too large")
    return Framing(length)


def keeps_alive(head: RequestHead | ResponseHead) -> bool:
    """Return whether the connection may serve another request, by version and ``Connection``.

    It may not after a body that ends when the peer closes; see ``Framing``.
    """
    named = head.headers.get("connection")
    if named is None:
        return head.version != "1.0"
    tokens = {token.strip(" \t").lower() for token in named.split(",")}
    return "close" not in tokens and (head.version != "1.0" or "keep-alive" in tokens)


def parse_keep_alive_s(value: str) -> int | None:
    """Return the ``timeout`` of a ``Keep-Alive`` field, None where it has none. Source: RFC 2068, 19.7.1.1."""
    found = _KEEP_ALIVE_TIMEOUT.search(value)
    return int(found[1]) if found else None


def encode_request_head(method: str, target: str, fields: Iterable[Field]) -> bytes:
    """Return the complete head of an HTTP/1.1 request.

    Raises ValueError when the method or target can't be on a request line, a name is not a token, a value holds a
    control character, or a character is beyond latin-1.
    """
    if not _TOKEN.fullmatch(method) or not _TARGET.fullmatch(target):
        raise ValueError("method or target can't be sent")
    return _encode(f"{method} {target} HTTP/1.1\r\n", fields)


def encode_response_head(head: ResponseHead, extra: Iterable[Field] = ()) -> bytes:
    """Return the complete head of an HTTP/1.1 answer with the fields of ``head`` and ``extra``.

    The phrase is the standard one of the status, or empty. Raises ValueError as ``encode_request_head`` does.
    """
    line = _STATUS_LINES.get(head.status) or f"HTTP/1.1 {head.status:03d} \r\n"
    return _encode(line, [*head.headers.fields, *extra])


def _encode(line: str, fields: Iterable[Field]) -> bytes:
    lines = [f"{name}: {value}\r\n" for name, value in fields]
    text = "".join(lines) + "\r\n"
    # A CRLF in a value could look like one more field, so count the lines: one for each field, and the blank one.
    if not _SENT_FIELDS.fullmatch(text) or text.count("\n") != len(lines) + 1:
        raise ValueError("a header can't be sent")
    try:
        return (line + text).encode("latin-1")
    except UnicodeEncodeError:
        raise ValueError("a header holds characters beyond latin-1") from None


def encode_chunk(piece: bytes) -> bytes:
    """Return ``piece`` as one chunk. Return no bytes for an empty piece, because an empty chunk ends the body."""
    return CHUNK % (len(piece), piece) if piece else b""
