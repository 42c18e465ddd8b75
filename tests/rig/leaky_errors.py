"""Providers that repeat their key in errors, in headers, and in what is no HTTP."""

import gzip
import json
from collections.abc import Callable, Mapping
from typing import Any

from rig.leaky import STREAMED, Leak, Leaks, in_two_pieces
from rig.scripts import CLOSE, chunked, completion, event, response_head, whole


def _error(message: str, **changes: Any) -> dict[str, Any]:
    fields = {"message": message, "type": "t", "param": "p", "code": "c", "status": "S"}
    return {"error": fields | changes}


SENTENCE = "The key {} can't be used for this."

_BODIES: Mapping[str, Callable[[str], Any]] = {
    "message": lambda key: _error(SENTENCE.format(key)),
    "message alone": _error,
    "param": lambda key: _error("No.", param=key),
    "code": lambda key: _error("No.", code=key, type=key, status=key),
    "details": lambda key: _error("", details=[{"reason": key, "message": SENTENCE.format(key)}]),
    "two keys": lambda key: _error(f"Neither {key} nor {key[:-4]} nor {key[4:]}."),
    "upper case": lambda key: _error(SENTENCE.format(key.upper())),
    "percent-encoded": lambda key: _error(SENTENCE.format("".join(f"%{ord(char):02x}" for char in key))),
    "JSON in JSON": lambda key: _error(json.dumps(_error(SENTENCE.format(key)))),
    "escaped": lambda key: _escaped(_error(SENTENCE.format(key)), key),
    "over lines": lambda key: _error(f"The key\n{key}\nis bad."),
    "unseen characters": lambda key: _error(SENTENCE.format(key[:20] + "\u200b" + key[20:])),
    "halves": lambda key: _error(f"The key {key[:20]} {key[20:]} is bad."),
    "long": lambda key: _error("x" * 1990 + f" {key}"),
    "flat": lambda key: {"message": SENTENCE.format(key)},
    "detail": lambda key: {"detail": [{"loc": ["header", key], "msg": SENTENCE.format(key)}]},
    "list": lambda key: [_error(SENTENCE.format(key))],
    "name": lambda key: _error("No.") | {key: key},
    "HTML": lambda key: f"<html><title>{key}</title><body>{key}</body></html>".encode(),
    "text": lambda key: SENTENCE.format(key).encode(),
    "no text": lambda key: key.encode() + b"\xff{",
}


def _escaped(body: object, key: str) -> bytes:
    return json.dumps(body).replace(key, "".join(f"\\u{ord(char):04x}" for char in key)).encode()


def leaks_of_errors(dialect: str) -> Leaks:
    """Return errors with the key: for each status and place of the body, in a success, and in a begun stream."""
    leaks: dict[str, Leak] = {}
    for name, made in _BODIES.items():
        leaks[f"400, {name}"] = lambda key, made=made: whole(made(key), 400)
        leaks[f"200, {name}"] = lambda key, made=made: whole(made(key))
    for status in (302, 401, 403, 404, 408, 422, 429, 500, 503, 599):
        leaks[f"{status}"] = lambda key, status=status: whole(_error(SENTENCE.format(key)), status)
    first = STREAMED[dialect][:1]
    for name, event_ in {
        "an error event": lambda key: event(_error(SENTENCE.format(key))),
        "an error event over two data lines": lambda key: (
            f'data: {{"error": {{"message":\ndata: "No {key}."}}}}\n\n'.encode()
        ),
        "an event of type error": lambda key: b"event: error\n" + event({"message": key}),
        "no JSON": lambda key: event(key),
        "no JSON in two lines": lambda key: f"data: {{{key}\ndata: {key}\n\n".encode(),
        "cut": lambda key: f'data: {{"id": "{key}'.encode(),
    }.items():
        leaks[f"stream, {name}"] = lambda key, made=event_: chunked(made(key))
        leaks[f"stream, {name} later"] = lambda key, made=event_: chunked(event(first[0]), made(key))
    in_one = _BODIES["message"]
    leaks["stream, an error event in two writes"] = lambda key: in_two_pieces(
        chunked(event(in_one(key))), key
    )
    return leaks


def _head(key: str, *headers: tuple[str, str], status: int = 200, reason: str = "OK") -> bytes:
    return response_head(status, [("Content-Type", "application/json"), *headers], reason)


WIRE: Leaks = {
    "headers": lambda key: whole(
        completion(),
        headers=[
            (name, key) for name in ("X-Request-Id", "Set-Cookie", "OpenAI-Organization", "Server", key)
        ],
    ),
    "headers of an error": lambda key: whole(
        _error("No."),
        401,
        headers=[(name, key) for name in ("Retry-After", "WWW-Authenticate", "Location", "X-Request-Id")],
    ),
    "Retry-After": lambda key: whole(_error("Slower."), 429, headers=[("Retry-After", key)]),
    "Location": lambda key: whole(b"", 307, headers=[("Location", f"http://127.0.0.1:1/?key={key}")]),
    "reason": lambda key: (_head(key, ("Content-Length", "2"), status=500, reason=key) + b"{}",),
    "content type": lambda key: whole(completion(), content_type=f"text/{key}"),
    "content encoding": lambda key: whole(completion(), headers=[("Content-Encoding", key)]),
    "gzip": lambda key: whole(
        gzip.compress(json.dumps(completion(f"It is {key}.")).encode()),
        headers=[("Content-Encoding", "gzip")],
    ),
    "not gzip": lambda key: whole(key.encode(), headers=[("Content-Encoding", "gzip")]),
    "status line": lambda key: (f"HTTP/1.1 {key} OK\r\n\r\n".encode(), CLOSE),
    "no HTTP": lambda key: (f"{key}\r\n\r\n".encode(), CLOSE),
    "header without a colon": lambda key: (b"HTTP/1.1 200 OK\r\n" + f"{key}\r\n\r\n".encode(), CLOSE),
    "header with a space": lambda key: (_head(key, (f"{key} ", key)), CLOSE),
    "content length": lambda key: (_head(key, ("Content-Length", key)), CLOSE),
    "transfer encoding": lambda key: (_head(key, ("Transfer-Encoding", key)), CLOSE),
    "chunk size": lambda key: (_head(key, ("Transfer-Encoding", "chunked")) + f"{key}\r\n".encode(), CLOSE),
    "chunk extension": lambda key: (
        _head(key, ("Transfer-Encoding", "chunked")) + f"2;{key}\r\n{{}}\r\n0\r\n\r\n".encode(),
    ),
    "trailer": lambda key: (
        _head(key, ("Transfer-Encoding", "chunked")) + f"2\r\n{{}}\r\n0\r\nX-Key: {key}\r\n\r\n".encode(),
    ),
    "informational": lambda key: (
        f"HTTP/1.1 103 {key}\r\nLink: {key}\r\n\r\n".encode(),
        *whole(completion()),
    ),
    "body cut": lambda key: (_head(key, ("Content-Length", "9999")) + f'{{"id": "{key}"'.encode(), CLOSE),
    "body after its end": lambda key: (*whole(completion()), f"{key}\r\n\r\n".encode()),
    "not JSON": lambda key: whole(key.encode()),
    "JSON, not an object": lambda key: whole(json.dumps([key]).encode()),
    "no number": lambda key: whole(b'{"choices": [], "usage": NaN, "id": "%s"}' % key.encode()),
}
