"""Requests and answers that are expensive on purpose. Pure."""

from collections.abc import Callable
from typing import Final, NamedTuple

MIB: Final = 1 << 20
SLUGS: Final = {"openai": "hostile-openai", "anthropic": "hostile-anthropic", "gemini": "hostile-gemini"}


class Input(NamedTuple):
    """One call: the client's request and the provider's answer. Both are made when they are needed."""

    name: str
    request: Callable[[], bytes]
    answer: Callable[[bytes], bytes]


def _http(body: bytes, status: int = 200, kind: bytes = b"application/json") -> bytes:
    head = b"HTTP/1.1 %d Canned\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n" % (status, kind, len(body))
    return head + body


def _prompt(text: bytes, slug: str = SLUGS["openai"], more: bytes = b"") -> bytes:
    message = b'{"role":"user","content":"%b"}' % text
    return b'{"model":"%b","max_tokens":64,%b"messages":[%b]}' % (slug.encode(), more, message)


def _messages(count: int, last: bytes = b'{"role":"user","content":"x"}') -> bytes:
    many = b'{"role":"user","content":"x"},' * (count - 1)
    return b'{"model":"%b","max_tokens":64,"messages":[%b%b]}' % (SLUGS["openai"].encode(), many, last)


def _picture(slug: str) -> bytes:
    url = b"data:image/png;base64," + b"iVBORw0KGgoA" * (20 * MIB // 12)
    parts = b'[{"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"%b"}}]' % url
    message = b'{"role":"user","content":%b}' % parts
    return b'{"model":"%b","max_tokens":64,"messages":[%b]}' % (slug.encode(), message)


def _completion(text: bytes = b"Yes.") -> bytes:
    message = b'{"role":"assistant","content":"%b"}' % text
    usage = b'{"prompt_tokens":5,"completion_tokens":5,"total_tokens":10}'
    return b'{"id":"1","object":"chat.completion","created":1,"model":"up","choices":[%b],"usage":%b}' % (
        b'{"index":0,"message":%b,"finish_reason":"stop"}' % message,
        usage,
    )


_CLAUDE = b'{"id":"1","type":"message","role":"assistant","content":[{"type":"text","text":"Yes."}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":5}}'  # noqa: E501
_GEMINI = b'{"candidates":[{"content":{"parts":[{"text":"Yes."}],"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":5,"totalTokenCount":10}}'  # noqa: E501
_ANSWERS: Final = {"openai": _completion(), "anthropic": _CLAUDE, "gemini": _GEMINI}


def _echo(blanks: int) -> Callable[[bytes], bytes]:
    message = b'{"error":{"message":"Invalid value: \'a%bb\'.","type":"invalid_request_error"}}' % (
        b" " * blanks
    )
    return lambda _: _http(message, 400)


def _lines(size: int) -> Callable[[bytes], bytes]:
    line = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"a"}}]}\n'
    stream = line * (size // len(line)) + b"\ndata: [DONE]\n\n"
    return lambda _: _http(stream, kind=b"text/event-stream")


def _good(dialect: str = "openai") -> Callable[[bytes], bytes]:
    return lambda _: _http(_ANSWERS[dialect])


def _shown(slug: str, dialect: str) -> Input:
    return _asked(lambda: _picture(slug), f"a picture of 20 MB, {dialect}", dialect)


def _asked(request: Callable[[], bytes], name: str, dialect: str = "openai") -> Input:
    return Input(name, request, _good(dialect))


def _answered(name: str, answer: Callable[[], bytes], *, stream: bool = False) -> Input:
    more = b'"stream":true,' if stream else b""
    kind = b"text/event-stream" if stream else b"application/json"
    return Input(name, lambda: _prompt(b"hello", more=more), lambda _: _http(answer(), kind=kind))


_STREAMED: Final = b'"stream":true,'
_WORDS: Final = b"hello world "
_EMOJI: Final = "😀".encode()

INPUTS: Final = (
    _asked(lambda: _prompt(b"hello"), "a small call"),
    Input("60,000 blanks, repeated in the provider's 400", lambda: _prompt(b"hello"), _echo(60_000)),
    Input("900 KB of blanks, repeated in the provider's 400", lambda: _prompt(b"hello"), _echo(900_000)),
    Input("one event of 1 MB in data: lines", lambda: _prompt(b"hello", more=_STREAMED), _lines(1_000_000)),
    Input("one event of 3.9 MB in data: lines", lambda: _prompt(b"hello", more=_STREAMED), _lines(3_900_000)),
    _asked(lambda: b"[" * (30 * MIB), "30 MB of [[["),
    _asked(lambda: b"[" * (15 * MIB) + b"]" * (15 * MIB), "30 MB of [[[]]]"),
    _asked(lambda: _messages(1_000_000), "a million small messages"),
    _asked(
        lambda: _prompt(b"Hello", more=b"".join(b'"unknown_%d":1,' % number for number in range(240_000))),
        "240,000 unknown fields",
    ),
    _asked(lambda: _messages(80_000), "80,000 small messages"),
    _asked(lambda: _messages(30_000), "30,000 small messages (under 1 MB)"),
    _asked(
        lambda: _messages(80_000, b'{"role":"user"}')[:-2] + b',{"role":7}' * 10 + b"]}",
        "80,000, ten of them bad",
    ),
    _asked(lambda: _prompt(b",:[{" * (8 * MIB - 64)), "32 MB of commas and brackets"),
    _asked(lambda: _prompt(_WORDS * (32 * MIB // 12 - 64) + _EMOJI), "32 MB of text and one emoji"),
    _asked(lambda: _prompt(b"\\n" * (16 * MIB - 128)), "32 MB of \\n"),
    _asked(lambda: _prompt(b'\\"' * (16 * MIB - 128)), '32 MB of \\"'),
    _asked(lambda: _prompt(b"\\u00e9" * (32 * MIB // 6 - 64)), "32 MB of \\u00e9"),
    _asked(lambda: _prompt(b" " * 900_000), "900 KB of blanks"),
    *(_shown(slug, dialect) for dialect, slug in SLUGS.items()),
    _answered("an answer of 60 MB of text and one emoji", lambda: _completion(_WORDS * (5 * MIB) + _EMOJI)),
    _answered("an answer of 60 MB of \\n", lambda: _completion(b"\\n" * (30 * MIB))),
    _answered("an answer of 30 MB of [[[", lambda: b"[" * (30 * MIB)),
    _answered("an answer with a million values", lambda: b'{"choices":[%b0]}' % (b"0," * 1_000_000)),
    _answered(
        "an answer with 240,000 values", lambda: _completion()[:-1] + b',"x":[%b0]}' % (b"0," * 240_000)
    ),
    _answered("an event of 3.9 MB of [[[", lambda: b"data: " + b"[" * 3_900_000 + b"\n\n", stream=True),
    _answered(
        "an event with a million values", lambda: b'data: {"x":[%b0]}\n\n' % (b"0," * 1_000_000), stream=True
    ),
)
