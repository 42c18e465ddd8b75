"""Malformed parts of HTTP/1.1 messages, for requests and for answers."""


def head(*lines: bytes) -> bytes:
    """Return the lines, each ended by CRLF, and the blank line."""
    return b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def chunk(piece: bytes, size: bytes | None = None) -> bytes:
    """Return one chunk. ``size`` replaces its size line."""
    return (b"%x" % len(piece) if size is None else size) + b"\r\n" + piece + b"\r\n"


MEGABYTE = 1_000_000

# fmt: off
BAD_LENGTHS = (
    b"1, 1", b"1,1", b"+1", b"-1", b"0x1", b"", b"1 1", b"1_0", b"1.0", b"01", b"00", b"003", b"\xb2", b"xyz", b"1;",
    b'"1"', b"%d" % 2**64, b"1" + b"0" * 30, b"9" * 5000,
)
BAD_CODINGS = (
    b"gzip, chunked", b"gzip", b"chunked, gzip", b"chunked, chunked", b"identity", b"xchunked", b"chunkedchunked",
    b"chunked\x0b", b"\x0bchunked", b"chunked\t", b"chunked \t", b"", b'"chunked"', b"chunked;q=1", b"chunked,",
    b",chunked", b"chunked identity", b"pigeons", b"deflate, chunked", b"chunked\0", b"\xa0chunked", b"chunked\x85",
)
BAD_VERSIONS = (
    b"HTTP/2.0", b"HTTP/0.9", b"HTTP/1.2", b"HTTP/1.10", b"HTTP/1", b"HTTP/01.1", b"http/1.1", b"RTSP/1.0", b"ICE",
    b"ICE/1.0", b"IHTTP/1.0", b"HTTP/5.6", b"", b"HTTP/1.1 ", b"HTTP/1.1\t", b"HTTP/1.1 x", b"HTTP /1.1",
    b"HTTP/1.\xb2", b"HTTP/11.1", b"HTTP/1,1", b"HTTP/-1.1",
)
BAD_HOSTS = (
    b"a b", b"c@", b"u@a", b"a/b", b"a?b", b"a#b", b"a,b", b"a, b", b"", b":80", b"a:b", b"a:80:80", b"a%zz", b"a%2",
    b"[::1", b"[a b]", b"[::1]x", b"::1", b"a\\b", b"a:123456", b"\xe9", b"a\tb", b"<a>", b"http://a", b"a:+80",
)
BAD_TARGETS = (
    b"/\xe9", b"/\x01", b"/\x7f", b"/a#b", b"http://gateway.test/#b", b"a", b"?a", b"*a", b"/a b", b"https://",
    b"http:///a", b"http://u@gateway.test/", b"http://other.test/", b"http://gateway.test:81/", b"http:/a", b"http:a",
    b"ftp://gateway.test/", b"http://gateway.test\\@other.test/", b"//gateway.test\t", b"gateway.test:80",
)
BAD_STATUS_LINES = (
    b"HTTP/1.1 000 x", b"HTTP/1.1 099 x", b"HTTP/1.1 1000 x", b"HTTP/1.1 20 x", b"HTTP/1.1 2 OK",
    b"HTTP/1.1 2000 x", b"HTTP/1.1 200x", b"HTTP/1.1  200 x", b"HTTP/2 200 x", b"HTTP/1.1", b"ICY 200 OK", b"",
    b"HTTP/1.1 +20 x", b"HTTP/1.1 200 \0", b"HTTP/1.1 \xb200 x", b" HTTP/1.1 200 x", b"HTTP/1.1\t200 x",
    b"HTTP/01.1 200 OK", b"HTTP/11.1 200 OK", b"HTTP/1.01 200 OK", b"HTTP/5.6 200 OK", b"http/1.1 200 OK",
    b"HTTP/1.1 200 OK\rContent-Length: 0", b"HTTP/1.1 200 OK\r", b"\rHTTP/1.1 200 OK",
)
BAD_SIZE_LINES = (
    b"zz", b"", b" 1", b"1 ", b"\t1", b"1\t", b"0x1", b"+1", b"-1", b"1_", b"00000000000000001", b"1\r", b"1,", b"1x",
    b"1;", b"1;;a", b"1;a;;b", b"1;a;", b"1 ;a", b"1; a", b"1;a b", b"1;a =b", b"1;a= b", b"1;a=", b"1;=b", b"1 a",
    b"1;a\nb", b"1;a\rb", b"1;a\0b", b"1;a\x7f", b'1;a="\t"', b'1;a="b', b'1;a="b"c', b"1;\xe9", b"1\r\r;ABCD",
    b"\xb2", b"1\n", b"\n1", b'1;a="\n"', b'1;a="\r"', b'1;a="\\\n"', b"1 \n  ", b"1;a=b=c", b"1;a\n",
)
# fmt: on
BAD_FIELDS = {
    "bare LF": b"a: b\nc: d",
    "bare LF after a colon": b"a:\nTransfer-Encoding: chunked",
    "bare LF, and a length": b"a: b\nContent-Length: 23",
    "bare CR in a value": b"a: b\rc",
    "bare CR after a colon": b"a:\rTransfer-Encoding: chunked",
    "bare CR in a name": b"Content\rLength: 3",
    "bare CR before a name": b"\ra: b",
    "CR CR LF": b"a: b\r",
    "bare CR and a request": b"\rZGET /evil: HTTP/1.1",
    "folded by a space": b"a: b\r\n c",
    "folded by a tab": b"a: b\r\n\tc: d",
    "folded length": b"a: b\r\n Content-Length: 38",
    "folded after an empty value": b"a:\r\n b",
    "name on a line of its own": b"name\r\n : value",
    "NUL in a value": b"a: b\0",
    "NUL in a name": b"a\0: b",
    "escapes in a name": b"Connection\r\x1b\x35\xd5eep-Alive",
    "space before the colon": b"a : b",
    "space before the colon of a length": b"Content-Length : 4",
    "tab before the colon": b"a\t: b",
    "space in a name": b"a b: c",
    "empty name": b": b",
    "no colon": b"abc",
    "name beyond ASCII": b"\xe9: b",
    "name with an at sign": b"a@: b",
    "name with a bracket": b"a(b: c",
    **{
        f"control {byte:#04x} in a value": b"a: b%cc" % byte
        for byte in (*range(1, 9), 11, 12, *range(14, 32), 127)
    },
    **{f"control {byte:#04x} after a value": b"a: b%c" % byte for byte in (1, 11, 12, 31, 127)},
}
"""Lines of a head that are refused in requests and in answers."""

BAD_CHUNKS = {
    **{f"size line {line!r}": chunk(b"x", line) + b"0\r\n\r\n" for line in BAD_SIZE_LINES},
    "LF after the size": b"1\nx\r\n0\r\n\r\n",
    "LF after the data": b"1\r\nx\n0\r\n\r\n",
    "CR after the data": b"1\r\nx\r0\r\n\r\n",
    "only LF": b"1\nx\n0\n\n",
    "nothing after the data": b"5\r\nhello0\r\n\r\n",
    "more data than the size": b"1\r\nxy\r\n0\r\n\r\n",
    "less data than the size": b"3\r\nxy\r\n0\r\n\r\n",
    "two other bytes after the data": b"1\r\nxab0\r\n\r\n",
    "trailer with LF": b"0\r\na: b\n\r\n\r\n",
    "trailer with CR": b"0\r\na: b\rc\r\n\r\n",
    "trailer without a colon": b"0\r\nGET / HTTP/1.1\r\n\r\n",
    "folded trailer": b"0\r\na: b\r\n c\r\n\r\n",
    "trailer with NUL": b"0\r\na: \0\r\n\r\n",
    "trailer without a name": b"0\r\n: b\r\n\r\n",
    "trailer with a space before its colon": b"0\r\na : b\r\n\r\n",
    "LF at the end": b"0\r\n\n",
    "CR at the end": b"0\r\n\rx",
    "extension of a megabyte": chunk(b"x", b"1;" + b"a" * MEGABYTE) + b"0\r\n\r\n",
    "extensions of a megabyte": chunk(b"x", b"1;a=bc") * (MEGABYTE // 11) + b"0\r\n\r\n",
    "size of endless zeros": b"0" * MEGABYTE,
    "trailers of a megabyte": b"0\r\n" + b"a: b\r\n" * (MEGABYTE // 6) + b"\r\n",
    "trailer of a megabyte": b"0\r\na: " + b"b" * MEGABYTE + b"\r\n\r\n",
}
"""Chunked bodies that are refused in requests and in answers."""

BAD_FRAMINGS = {
    "length and coding": (b"Content-Length: 1", b"Transfer-Encoding: chunked"),
    "coding and length": (b"Transfer-Encoding: chunked", b"Content-Length: 1"),
    "length and identity": (b"Content-Length: 1", b"Transfer-Encoding: identity"),
    "two equal lengths": (b"Content-Length: 1", b"Content-Length: 1"),
    "two lengths": (b"Content-Length: 1", b"content-length: 2"),
    "two codings": (b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
    "two codings, the last chunked": (b"Transfer-Encoding: deflate", b"Transfer-Encoding: chunked"),
    "length and empty codings": (b"Content-Length: 10", b"Transfer-Encoding:", b"Transfer-Encoding:"),
    **{f"length {value[:40]!r}": (b"Content-Length: " + value,) for value in BAD_LENGTHS},
    **{f"coding {value!r}": (b"Transfer-Encoding: " + value,) for value in BAD_CODINGS},
}
"""Framing fields that are refused in requests and in answers."""
