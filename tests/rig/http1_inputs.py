"""HTTP/1.1 inputs as data: requests with their statuses, and a provider's answers with the client's status.

Each input is all bytes of one connection. The same lists test the syntax modules and a running gateway. A gateway may
answer and close before it has read all of them.
"""

from dataclasses import dataclass

from rig.malformed_http1 import (
    BAD_CHUNKS,
    BAD_FIELDS,
    BAD_FRAMINGS,
    BAD_HOSTS,
    BAD_STATUS_LINES,
    BAD_TARGETS,
    BAD_VERSIONS,
    MEGABYTE,
    chunk,
    head,
)

BLANK_LINES = 40_000


@dataclass(frozen=True)
class Call:
    """The parts of the requests that are served."""

    path: bytes = b"/v1/chat/completions"
    authorization: bytes = b"Bearer key"
    body: bytes = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'
    host: bytes = b"gateway.test"


@dataclass(frozen=True)
class RequestInput:
    """The bytes of a client on one connection, and the statuses of all final answers, in order.

    ``closes``: the gateway then closes the connection. None: it may or may not.
    """

    name: str
    raw: bytes
    statuses: tuple[int, ...]
    closes: bool | None


@dataclass(frozen=True)
class AnswerInput:
    """The bytes of a provider for one request on one connection, and the status that the client gets.

    ``provider_closes``: it closes after these bytes. ``is_reusable``: the connection may serve the next call.
    """

    name: str
    raw: bytes
    status: int
    provider_closes: bool = False
    is_reusable: bool = False


def request_inputs(call: Call = Call()) -> list[RequestInput]:
    """Return every input. The requests that are served are made of ``call``."""
    return [*_refused(call), *_served(call), *_beyond_bounds(call)]


def _refused(call: Call) -> list[RequestInput]:
    first, host = b"POST %b HTTP/1.1" % call.path, b"Host: " + call.host
    key = b"Authorization: " + call.authorization
    authorized = (first, host, key, b"Content-Type: application/json")
    broken = {
        **{f"field: {name}": head(first, line, host) for name, line in BAD_FIELDS.items()},
        **{f"last field: {name}": head(*authorized, line) for name, line in BAD_FIELDS.items()},
        **{f"framing: {name}": head(*authorized, *lines) + b"xx" for name, lines in BAD_FRAMINGS.items()},
        **{
            f"chunks: {name}": head(*authorized, b"Transfer-Encoding: chunked") + body
            for name, body in BAD_CHUNKS.items()
        },
        "bare LF after the request line": first + b"\n" + head(host),
        "bare CR after the request line": first + b"\r" + head(host),
        "CR CR LF after the request line": first + b"\r\r\n" + head(host),
        "only LF": first + b"\n" + host + b"\n\n",
        "LF for the blank line": first + b"\r\n" + host + b"\r\n\n",
        "CR for the blank line": first + b"\r\n" + host + b"\r\n\rabc",
        "folded after the request line": head(first, b" " + host),
        "chunked in HTTP/1.0": head(b"POST %b HTTP/1.0" % call.path, host, b"Transfer-Encoding: chunked"),
        "HTTP/0.9": b"GET /\r\n\r\n",
        **{f"version {version!r}": head(b"POST %b " % call.path + version, host) for version in BAD_VERSIONS},
        **{f"target {target!r}": head(b"POST %b HTTP/1.1" % target, host) for target in BAD_TARGETS},
        **{f"Host {value!r}": head(first, b"Host: " + value) for value in BAD_HOSTS},
        "method with a bracket": head(b"G(T / HTTP/1.1", host),
        "no method": head(b" / HTTP/1.1", host),
        "method beyond ASCII": head(b"G\xc9T / HTTP/1.1", host),
        "two spaces before the target": head(b"POST  %b HTTP/1.1" % call.path, host),
        "two spaces after the target": head(b"POST %b  HTTP/1.1" % call.path, host),
        "tabs in the request line": head(b"POST\t%b\tHTTP/1.1" % call.path, host),
        "space before the method": head(b" " + first, host),
        "CONNECT of a path": head(b"CONNECT / HTTP/1.1", host),
        "no Host": head(first),
        "two Hosts": head(first, host, host),
        "two Hosts in HTTP/1.0": head(b"GET / HTTP/1.0", host, host),
    }
    too_large = {
        f"length {length}": head(*authorized, b"Content-Length: %d" % length) for length in (2**63, 2**64 - 1)
    }
    return [
        *(RequestInput(name, raw, (400,), closes=True) for name, raw in broken.items()),
        *(RequestInput(name, raw, (413,), closes=True) for name, raw in too_large.items()),
    ]


def _served(call: Call) -> list[RequestInput]:
    first, host = b"POST %b HTTP/1.1" % call.path, b"Host: " + call.host
    length = b"Content-Length: %d" % len(call.body)
    fields = (b"Authorization: " + call.authorization, b"Content-Type: application/json")
    plain = head(first, host, *fields, length) + call.body
    chunked = head(first, host, *fields, b"Transfer-Encoding: chunked")
    last = b"0\r\n\r\n"
    upgrade = (
        b"Connection: Upgrade, HTTP2-Settings",
        b"Upgrade: h2c",
        b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk",
    )
    expect = b"Expect: 100-continue"
    absolute = b"POST http://%b%b HTTP/1.1" % (call.host.upper(), call.path)
    keyless = head(first, host, b"Content-Type: application/json", b"Transfer-Encoding: chunked")
    served = {
        "a call": plain,
        "blanks around values": head(
            first, b"Host:" + host[5:] + b" \t", *fields, b"content-LENGTH:\t" + length[16:] + b"\t"
        )
        + call.body,
        "bytes above 0x7f in a value": head(first, host, *fields, length, b"X-A: \xe9\xff\x80") + call.body,
        "Expect with its body": head(first, host, *fields, expect, length) + call.body,
        "an empty value": head(first, host, *fields, length, b"X-A:", b"X-B: \t ") + call.body,
        "400 lines": head(first, host, *fields, length, *[b"x: y"] * 400) + call.body,
        "absolute target": head(absolute, host, *fields, length) + call.body,
        "blank lines before the request line": b"\r\n" * 4 + plain,
        "upgrade to h2c": head(first, host, *fields, *upgrade, length) + call.body,
        "one chunk": chunked + chunk(call.body) + last,
        "coding in capitals": head(first, host, *fields, b"TRANSFER-ENCODING: Chunked")
        + chunk(call.body)
        + last,
        "1-byte chunks": chunked + b"".join(chunk(b"%c" % byte) for byte in call.body) + last,
        "sizes of 16 digits": chunked + chunk(call.body, b"%016X" % len(call.body)) + b"0000\r\n\r\n",
        "extensions": chunked
        + chunk(call.body, b'%x;a;b=c;d="e; \\"f\\""' % len(call.body))
        + b"0;g\r\n\r\n",
        "trailers": chunked + chunk(call.body) + b"0\r\nContent-Length: 5\r\nHost: other\r\n\r\n",
    }
    twice = chunked + chunk(call.body) + last + plain
    http_1_0 = head(b"POST %b HTTP/1.0" % call.path, *fields, length) + call.body
    closing = head(first, host, *fields, length, b"Connection: close") + call.body
    return [
        *(RequestInput(name, raw, (200,), closes=False) for name, raw in served.items()),
        RequestInput("two pipelined", twice, (200, 200), closes=False),
        RequestInput("blank lines between two", plain + b"\r\n\r\n" + plain, (200, 200), closes=False),
        RequestInput("junk after a call", plain + b"junk junk\r\n\r\n", (200, 400), closes=True),
        RequestInput("HTTP/1.0 without Host", http_1_0, (200,), closes=True),
        RequestInput("bytes after Connection: close", closing + plain, (200,), closes=True),
        RequestInput(
            "Authorization as a trailer",
            keyless + chunk(call.body) + b"0\r\n" + fields[0] + b"\r\n\r\n",
            (401,),
            closes=False,
        ),
        *(
            RequestInput(f"method {method!r}", head(method + first[4:], host), (405,), closes=False)
            for method in (b"FOO", b"post", b"OPTIONS", b"M-SEARCH")
        ),
        RequestInput(
            "GET that expects to go on with broken chunks",
            head(b"GET" + first[4:], host, *fields, expect, b"Transfer-Encoding: chunked") + b"zz\r\n",
            (405,),
            closes=None,
        ),
        RequestInput("target *", head(b"OPTIONS * HTTP/1.1", host), (405,), closes=False),
        RequestInput("CONNECT", head(b"CONNECT other.test:443 HTTP/1.1", host), (405,), closes=None),
    ]  # fmt: skip


def _beyond_bounds(call: Call) -> list[RequestInput]:
    first, host = b"POST %b HTTP/1.1" % call.path, b"Host: " + call.host
    heads = {
        "a value of a megabyte": head(first, host, b"a: " + b"b" * MEGABYTE),
        "a value of a megabyte without end": first + b"\r\n" + host + b"\r\na: " + b"b" * MEGABYTE,
        "100,000 lines": head(first, host, *[b"a: b"] * 100_000),
        "600 lines": head(first, host, *[b"a: b"] * 600),
        "a target of a megabyte": head(b"GET /" + b"a" * MEGABYTE + b" HTTP/1.1", host),
        "a method of a megabyte": b"A" * MEGABYTE,
        "blank lines without end": b"\r\n" * BLANK_LINES,
    }
    return [RequestInput(name, raw, (431,), closes=True) for name, raw in heads.items()]


def answer_inputs(body: bytes = b"{}") -> list[AnswerInput]:
    """Return every answer. ``body`` is a completion."""
    return [*_broken_answers(body), *_good_answers(body)]


def _broken_answers(body: bytes) -> list[AnswerInput]:
    ok, length, last = b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), b"0\r\n\r\n"
    broken = {
        **{f"field: {name}": head(ok, length, line) + body for name, line in BAD_FIELDS.items()},
        **{f"framing: {name}": head(ok, *lines) + chunk(body) + last for name, lines in BAD_FRAMINGS.items()},
        **{
            f"chunks: {name}": head(ok, b"Transfer-Encoding: chunked") + raw
            for name, raw in BAD_CHUNKS.items()
        },
        **{f"status line {line!r}": head(line, length) + body for line in BAD_STATUS_LINES},
        "length 2**63": head(ok, b"Content-Length: %d" % 2**63) + body,
        "chunked in HTTP/1.0": head(b"HTTP/1.0 200 OK", b"Transfer-Encoding: chunked") + chunk(body) + last,
        "only LF": ok + b"\n" + length + b"\n\n" + body,
        "LF for the blank line": ok + b"\r\n" + length + b"\r\n\n" + body,
        "blank line first": b"\r\n" + head(ok, length) + body,
        "two lengths of a 204": head(b"HTTP/1.1 204 No Content", b"Content-Length: 1", b"Content-Length: 1"),
        "a megabyte of head": head(ok, length, b"a: " + b"b" * MEGABYTE) + body,
        "a megabyte without a line": b"a" * MEGABYTE,
        "17 interim answers": head(b"HTTP/1.1 103 Early Hints") * 17 + head(ok, length) + body,
        "an interim answer with a broken line": head(b"HTTP/1.1 100 Continue", b"a : b")
        + head(ok, length)
        + body,
        "101": head(b"HTTP/1.1 101 Switching Protocols", b"Upgrade: h2c") + body,
    }
    cut = {
        "no bytes": b"",
        "half a head": ok + b"\r\nContent-",
        "a body shorter than its length": head(ok, b"Content-Length: %d" % (len(body) + 1)) + body,
        "no last chunk": head(ok, b"Transfer-Encoding: chunked") + chunk(body),
        "no blank line after the last chunk": head(ok, b"Transfer-Encoding: chunked")
        + chunk(body)
        + b"0\r\n",
    }
    return [
        *(AnswerInput(name, raw, 502) for name, raw in broken.items()),
        *(AnswerInput(name, raw, 502, provider_closes=True) for name, raw in cut.items()),
        # They are complete but have no body, so no completion.
        AnswerInput("204 with a length", head(b"HTTP/1.1 204 No", length), 502, is_reusable=True),
        AnswerInput("304 with a length", head(b"HTTP/1.1 304 No", length), 502, is_reusable=True),
    ]


def _good_answers(body: bytes) -> list[AnswerInput]:
    ok, length, last = b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), b"0\r\n\r\n"
    whole, chunked = head(ok, length) + body, head(ok, b"Transfer-Encoding: chunked")
    reusable = {
        "by length": whole,
        "one chunk": chunked + chunk(body) + last,
        "1-byte chunks": chunked + b"".join(chunk(b"%c" % byte) for byte in body) + last,
        "extensions and trailers": chunked + chunk(body, b"%x;a=b" % len(body)) + b"0\r\nX-A: b\r\n\r\n",
        "no reason": head(b"HTTP/1.1 200", length) + body,
        "reason beyond ASCII": head(b"HTTP/1.1 200 \xe9\t!", length) + body,
        "blanks and bytes above 0x7f in values": head(
            ok, b"content-length:\t" + length[16:] + b" ", b"X-A: \xe9"
        )
        + body,
        "100 first": head(b"HTTP/1.1 100 Continue") + whole,
        "103 first": head(b"HTTP/1.1 103 Early Hints", b"Link: </a>", b"Content-Length: 5") + whole,
        "16 interim answers": head(b"HTTP/1.1 103 Early Hints") * 16 + whole,
        "HTTP/1.0 with keep-alive": head(b"HTTP/1.0 200 OK", length, b"Connection: keep-alive") + body,
    }
    used_up = {
        "Connection: close": head(ok, length, b"Connection: x, Close") + body,
        "HTTP/1.0": head(b"HTTP/1.0 200 OK", length) + body,
        "a second answer after it": whole + whole,
        "junk after it": whole + b"junk",
        "a blank line after it": whole + b"\r\n",
        "chunks, and a second answer": chunked + chunk(body) + last + whole,
    }
    return [
        *(AnswerInput(name, raw, 200, is_reusable=True) for name, raw in reusable.items()),
        *(AnswerInput(name, raw, 200) for name, raw in used_up.items()),
        AnswerInput("until the provider closes", head(ok) + body, 200, provider_closes=True),
        AnswerInput("HTTP/1.0 until it closes", head(b"HTTP/1.0 200 OK") + body, 200, provider_closes=True),
    ]
