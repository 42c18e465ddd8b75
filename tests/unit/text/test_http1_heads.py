"""Heads of HTTP/1.1 messages and their framing: valid ones are read, ambiguous ones are refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addon.text.http1_heads import (
    Framing,
    HttpSyntaxError,
    encode_chunk,
    encode_request_head,
    encode_response_head,
    find_head_end,
    keeps_alive,
    parse_request_head,
    parse_response_head,
    request_framing,
    response_framing,
    skip_blank_lines,
)
from addon.text.http_heads import Headers, RequestHead, ResponseHead

CHUNKED = Framing(None, is_chunked=True)
UNTIL_CLOSE = Framing(None, until_close=True)


def request(*lines: bytes, first: bytes = b"POST /v1/x HTTP/1.1", host: bytes = b"Host: a") -> bytes:
    return b"".join(line + b"\r\n" for line in (first, host, *lines) if line) + b"\r\n"


def read_request(raw: bytes) -> tuple[RequestHead, Framing]:
    end = find_head_end(raw)
    assert end > 0
    head = parse_request_head(raw[:end])
    return head, request_framing(head)


def answer(*lines: bytes, first: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return b"".join(line + b"\r\n" for line in (first, *lines)) + b"\r\n"


def read_answer(raw: bytes, method: str = "POST") -> tuple[ResponseHead, Framing]:
    head = parse_response_head(raw[: find_head_end(raw)])
    return head, response_framing(head, method)


def test_a_request_head_is_read():
    raw = request(b"X-A:  b c\t ", b"x-a: \xe9\x80", b"Empty:", b"Content-Length: 12")
    head, framing = read_request(raw)
    fields = (("host", "a"), ("x-a", "b c"), ("x-a", "\xe9\x80"), ("empty", ""), ("content-length", "12"))
    assert head == RequestHead("POST", "/v1/x", "1.1", Headers(fields))
    assert framing == Framing(12)


@pytest.mark.parametrize(
    ("target", "path", "authority"),
    [
        (b"/", "/", ""),
        (b"//x?y=/#".rstrip(b"#"), "//x?y=/", ""),
        (b"*", "*", ""),
        (b"http://A", "/", "A"),
        (b"HTTPS://a/b?c", "/b?c", "a"),
        (b"http://a?c", "/?c", "a"),
    ],
)
def test_the_authority_of_an_absolute_target_is_split_off(target: bytes, path: str, authority: str):
    head, _ = read_request(request(first=b"GET " + target + b" HTTP/1.1"))
    assert (head.target, head.authority) == (path, authority)


@pytest.mark.parametrize("method", [b"FOO", b"get", b"M-SEARCH", b"PRI"])
def test_any_token_is_a_method(method: bytes):
    head, framing = read_request(request(first=method + b" / HTTP/1.1"))
    assert (head.method, framing) == (method.decode(), Framing(0))


def test_connect_keeps_its_authority_as_target():
    head, _ = read_request(request(first=b"CONNECT a:443 HTTP/1.1"))
    assert (head.target, head.authority) == ("a:443", "")


@pytest.mark.parametrize(
    "host",
    [
        b"a",
        b"a:80",
        b"a.b-c_d~e:65535",
        b"127.0.0.1",
        b"[::1]",
        b"[::1]:8080",
        b"a%20b",
        b"a:",
        b"xn--a.example.",
    ],
)
def test_hosts_that_are_valid(host: bytes):
    assert read_request(request(host=b"Host: " + host))[0].headers.get("host") == host.decode()


def test_framing_of_requests():
    assert read_request(request())[1] == Framing(0)
    assert read_request(request(b"Content-Length: 0"))[1] == Framing(0)
    assert read_request(request(b"Content-Length: %d" % (2**63 - 1)))[1] == Framing(2**63 - 1)
    assert read_request(request(b"transfer-encoding:   Chunked  "))[1] == CHUNKED
    upgrade = request(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"Content-Length: 9")
    assert read_request(upgrade)[1] == Framing(9)


@pytest.mark.parametrize(
    "raw", [b"", b"\r\n\r\n", request()[:-2], request()[:-1], request() + b"x", request() * 2]
)
def test_only_a_whole_head_is_parsed(raw: bytes):
    with pytest.raises(HttpSyntaxError):
        parse_request_head(raw)
    with pytest.raises(HttpSyntaxError):
        parse_response_head(raw.replace(b"POST /v1/x HTTP/1.1", b"HTTP/1.1 200 OK"))


def test_an_http_1_0_request_needs_no_host():
    head, _ = read_request(request(first=b"GET / HTTP/1.0", host=b""))
    assert head.version == "1.0"


@pytest.mark.parametrize(
    ("version", "connection", "kept"),
    [
        ("1.1", None, True),
        ("1.1", "close", False),
        ("1.1", "keep-alive, Close", False),
        ("1.1", "closed", True),
        ("1.0", None, False),
        ("1.0", "Keep-Alive", True),
        ("1.0", "keep-alive,close", False),
        ("1.0", "upgrade", False),
    ],
)
def test_version_and_connection_decide_whether_a_connection_is_kept(version, connection, kept: bool):
    headers = Headers([("connection", connection)] if connection else [])
    assert keeps_alive(RequestHead("GET", "/", version, headers)) is kept
    assert keeps_alive(ResponseHead(200, headers, version)) is kept


@pytest.mark.parametrize(
    ("raw", "method", "framing"),
    [
        (answer(), "POST", UNTIL_CLOSE),
        (answer(first=b"HTTP/1.1 200"), "POST", UNTIL_CLOSE),
        (answer(first=b"HTTP/1.0 200 \xe9"), "POST", UNTIL_CLOSE),
        (answer(b"Content-Length: 5"), "POST", Framing(5)),
        (answer(b"Transfer-Encoding: chunked"), "GET", CHUNKED),
        (answer(b"Content-Length: 5"), "HEAD", Framing(0)),
        (answer(b"Transfer-Encoding: chunked"), "HEAD", Framing(0)),
        (answer(), "CONNECT", Framing(0)),
        (answer(first=b"HTTP/1.1 407 No"), "CONNECT", UNTIL_CLOSE),
        (answer(b"Content-Length: 5", first=b"HTTP/1.1 204 No Content"), "POST", Framing(0)),
        (answer(b"Content-Length: 5", first=b"HTTP/1.1 304 Not Modified"), "POST", Framing(0)),
        (answer(first=b"HTTP/1.1 100 Continue"), "POST", Framing(0)),
        (answer(first=b"HTTP/1.1 103 Early Hints"), "POST", Framing(0)),
        (answer(first=b"HTTP/1.1 599 "), "POST", UNTIL_CLOSE),
    ],
)
def test_framing_of_answers(raw: bytes, method: str, framing: Framing):
    assert read_answer(raw, method)[1] == framing


def test_the_end_of_a_head_is_found_from_any_earlier_place():
    raw = request(b"a: b")
    assert find_head_end(bytearray(raw + b"body")) == len(raw)
    for split in range(len(raw)):
        assert find_head_end(raw[:split]) == -1
        assert find_head_end(raw, max(split - 3, 0)) == len(raw)


@pytest.mark.parametrize("begun", [b"GET / HTTP/1.1\n", b"a\r\n\n", b"a\rb", b"\n", b"a\r\r", b"a: b\r\nc\n"])
def test_a_bare_line_end_is_refused_before_the_head_has_ended(begun: bytes):
    for start in range(max(len(begun) - 1, 1)):
        with pytest.raises(HttpSyntaxError):
            find_head_end(begun, start if start < len(begun) - 1 else 0)


def test_blank_lines_before_a_request_can_be_skipped():
    assert skip_blank_lines(b"\r\n\r\nGET") == 4
    assert skip_blank_lines(bytearray(b"GET")) == 0
    assert skip_blank_lines(b"x\r\n\r", 1) == 3


VALID_NAMES = st.text("abcXYZ019-_", min_size=1, max_size=8)
VALUES = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=12).map(
    lambda v: v.strip(" \t")
)


FIELDS = st.lists(st.tuples(VALID_NAMES, VALUES), max_size=6)


@settings(deadline=None)
@given(FIELDS)
def test_encoded_heads_are_read_back(fields: list[tuple[str, str]]):
    read = tuple((name.lower(), value) for name, value in fields)
    raw = encode_request_head("PUT", "/a?b", [("Host", "h:1"), *fields])
    assert find_head_end(raw) == len(raw)
    assert parse_request_head(raw) == RequestHead("PUT", "/a?b", "1.1", Headers((("host", "h:1"), *read)))
    encoded = encode_response_head(ResponseHead(404, Headers(fields)), [("Date", "x")])
    assert encoded.startswith(b"HTTP/1.1 404 Not Found\r\n")
    assert parse_response_head(encoded) == ResponseHead(404, Headers((*read, ("date", "x"))))


def test_a_status_without_a_standard_phrase_has_none():
    assert encode_response_head(ResponseHead(599, Headers())) == b"HTTP/1.1 599 \r\n\r\n"


@pytest.mark.parametrize(
    ("method", "target", "name", "value"),
    [
        *(("GET", "/", "a", f"b{end}c") for end in ("\r", "\n", "\0", "\r\n", "\r\nd: e", "\u20ac")),
        *(("GET", "/", f"a{end}", "b") for end in ("\r", "\n", "\0", ":", " ", "\r\nd", "\u20ac", "\xe9")),
        *(("GET", f"/{end}", "a", "b") for end in ("\r", "\n", "\0", " ", "\xe9")),
        *((f"G{end}T", "/", "a", "b") for end in ("\r", "\n", "\0", " ", "\xe9")),
        ("GET", "/", "", "b"),
        ("GET", "", "a", "b"),
        ("", "/", "a", "b"),
    ],
)
def test_values_that_would_break_a_head_are_refused(method: str, target: str, name: str, value: str):
    with pytest.raises(ValueError):
        encode_request_head(method, target, [("host", "h"), (name, value), ("x", "y")])


def test_chunk_sizes_are_hex_and_an_empty_piece_is_no_chunk():
    assert encode_chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"
    assert encode_chunk(b"") == b""


HEAD_BYTES = st.lists(
    st.one_of(
        st.sampled_from(
            [b"\r\n", b"GET / HTTP/1.1\r\n", b"HTTP/1.1 200 OK\r\n", b"Host: a\r\n", b" ", b"Content-Length: 1\r\n"]
        ),
        st.binary(max_size=5),
    ),
    max_size=8,
).map(b"".join)  # fmt: skip


@given(HEAD_BYTES, st.sampled_from([b"", b"\r\n", b"\r\n\r\n"]))
def test_any_bytes_are_a_head_or_a_syntax_error(raw: bytes, end: bytes):
    for read in (read_any_request, read_any_answer):
        try:
            head = read(raw + end)
        except HttpSyntaxError:
            continue
        assert all(
            name == name.lower() and value == value.strip(" \t") for name, value in head.headers.fields
        )


def read_any_request(raw: bytes) -> RequestHead:
    head = parse_request_head(raw)
    request_framing(head)
    return head


def read_any_answer(raw: bytes) -> ResponseHead:
    head = parse_response_head(raw)
    response_framing(head, "POST")
    return head
