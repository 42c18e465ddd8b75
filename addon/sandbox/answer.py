"""The bytes of the sandbox's answer: one JSON object or server-sent events, bent or broken off as asked. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from typing import Any

from addon.sandbox.directives import DirectiveError
from addon.sandbox.request import SandboxError, SandboxRequest, refused_directive
from addon.sandbox.script import Choice, Counts, FinishReason, Piece, choices_of, counts_of

# What an OpenAI-like provider says with each status: (type, code). Any other 4xx is an invalid request.
_STATUS_ERRORS: Mapping[int, tuple[str, str]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "permission_denied"),
    404: ("invalid_request_error", "model_not_found"),
    413: ("invalid_request_error", "request_too_large"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("server_error", "overloaded"),
}
_DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send, and when. ``length_bytes`` is None for a stream; with ``drop`` the connection closes after it."""

    chunks: Iterable[bytes]
    length_bytes: int | None
    status: int = 200
    delay_ms: int = 0
    pace_ms: int = 0
    drop: bool = False

    @property
    def content_type(self) -> str:
        """The media type of the answer."""
        return "application/json" if self.length_bytes is not None else "text/event-stream; charset=utf-8"


def plan_error(error: SandboxError, delay_ms: int = 0) -> Plan:
    """Return the plan of an answer that is an error."""
    body = error.body()
    return Plan([body], len(body), error.status, delay_ms)


def plan_answer(request: SandboxRequest, completion_id: str, created_s: int) -> Plan:
    """Return the plan of the answer to ``request``."""
    asked = request.directives
    delay_ms = asked.numbers.get("delay", 0)
    if status := asked.numbers.get("status"):
        return plan_error(asked_error(status), delay_ms)
    try:
        answer = _Answer(request, completion_id, created_s)
    except DirectiveError as error:
        return plan_error(refused_directive(str(error)), delay_ms)
    drop, pace_ms = "drop" in asked.flags, asked.numbers.get("pace", 0)
    if request.body.stream:
        return Plan(answer.events(), None, delay_ms=delay_ms, pace_ms=pace_ms, drop=drop)
    body = asked_error(500).body() if "error-200" in asked.flags else json.dumps(answer.whole()).encode()
    return Plan([body[: len(body) // 2] if drop else body], len(body), delay_ms=delay_ms, drop=drop)


def asked_error(status: int) -> SandboxError:
    """Return the error that ``[[status:...]]`` asks for."""
    default = (
        ("invalid_request_error", "invalid_request") if status < 500 else ("server_error", "server_error")
    )
    type_, code = _STATUS_ERRORS.get(status, default)
    return SandboxError(status, f"The sandbox was asked for an error with status {status}.", type_, code)


class _Answer:
    def __init__(self, request: SandboxRequest, completion_id: str, created_s: int) -> None:
        self._request = request
        self._flags = request.directives.flags
        self._id, self._created_s = completion_id, created_s
        self._choices = choices_of(request)
        self._counts = counts_of(request, self._choices)
        if "silent" in self._flags:
            self._choices = tuple(Choice(one.index, (), (), _silenced(one)) for one in self._choices)

    def whole(self) -> dict[str, Any]:
        """The answer as one object."""
        choices = [
            {
                "index": choice.index,
                "message": self._message(choice),
                "logprobs": self._logprobs(choice.pieces),
                "finish_reason": choice.finish_reason,
            }
            for choice in self._choices
        ]
        usage = {} if "no-usage" in self._flags else {"usage": usage_of(self._counts)}
        return self._envelope("chat.completion") | {"choices": choices} | usage

    def events(self) -> Iterator[bytes]:
        """The answer as events. One that is to break off does so in the middle of its text."""
        middle = len(self._choices) + sum(len(choice.pieces) for choice in self._choices) // 2
        if "error-200" in self._flags:
            return iter([_event(json.loads(asked_error(500).body()))])
        if "error-in-stream" in self._flags:
            failure = _event(json.loads(asked_error(500).body()))
            return chain(map(_event, islice(self._chunks(), middle)), [failure])
        if "drop" in self._flags:
            return map(_event, islice(self._chunks(), middle))
        return chain(map(_event, self._chunks()), [] if "no-done" in self._flags else [_DONE])

    def _chunks(self) -> Iterator[dict[str, Any]]:
        options = self._request.body.stream_options
        tells_usage = options is not None and options.include_usage and "no-usage" not in self._flags
        envelope = self._envelope("chat.completion.chunk") | ({"usage": None} if tells_usage else {})
        # Choices come in turns, as providers send them.
        for turn in zip_longest(*map(self._deltas, self._choices)):
            for choice in filter(None, turn):
                yield envelope | {"choices": [choice]}
        if tells_usage:
            yield envelope | {"choices": [], "usage": usage_of(self._counts)}

    def _deltas(self, choice: Choice) -> Iterator[dict[str, Any]]:
        def part(
            delta: dict[str, Any], pieces: tuple[Piece, ...] = (), end: str | None = None
        ) -> dict[str, Any]:
            logprobs = self._logprobs(pieces) if "content" in delta and pieces else None
            return {"index": choice.index, "delta": delta, "logprobs": logprobs, "finish_reason": end}

        yield part({"role": "assistant", "content": None if choice.calls else ""})
        begun = 0
        for piece in choice.pieces:
            if piece.kind != "arguments":
                name = "content" if piece.kind == "content" else "reasoning_content"
                yield part({name: piece.text}, (piece,))
                continue
            call: dict[str, Any] = {"index": piece.call, "function": {"arguments": piece.text}}
            if piece.call == begun:
                call = self._call(choice, piece.call, piece.text) | {"index": piece.call}
                begun += 1
            yield part({"tool_calls": [call]})
        yield part({}, end=choice.finish_reason)

    def _message(self, choice: Choice) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": choice.text("content"), "refusal": None}
        if choice.calls:
            calls = [self._call(choice, at, choice.text("arguments", at)) for at in range(len(choice.calls))]
            message |= {"content": None, "tool_calls": calls}
        if reasoning := choice.text("reasoning"):
            message["reasoning_content"] = reasoning
        return message

    def _call(self, choice: Choice, at: int, arguments: str) -> dict[str, Any]:
        suffix = self._id.rpartition("-")[2]
        call_id = f"call_{suffix}_{choice.index}_{at}"
        return {
            "id": call_id,
            "type": "function",
            "function": {"name": choice.calls[at], "arguments": arguments},
        }

    def _logprobs(self, pieces: tuple[Piece, ...]) -> dict[str, Any] | None:
        if not self._request.body.logprobs:
            return None
        top = self._request.body.top_logprobs or 0
        return {
            "content": [_logprob(one.text, top) for one in pieces if one.kind == "content"],
            "refusal": None,
        }

    def _envelope(self, kind: str) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created_s,
            "model": self._request.body.model,
            "system_fingerprint": "sandbox",
        }


def _silenced(choice: Choice) -> FinishReason:
    return "length" if choice.finish_reason == "length" else "stop"


def usage_of(counts: Counts) -> dict[str, Any]:
    """Return the ``usage`` object of an answer."""
    return {
        "prompt_tokens": counts.prompt,
        "completion_tokens": counts.completion,
        "total_tokens": counts.prompt + counts.completion,
        "prompt_tokens_details": {"cached_tokens": counts.cached},
        "completion_tokens_details": {"reasoning_tokens": counts.reasoning},
    }


def _logprob(token: str, top: int) -> dict[str, Any]:
    """A token with its log probability; each alternative is one less likely than the one before it."""

    def entry(text: str, logprob: float) -> dict[str, Any]:
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}

    likely = -0.01 * len(token)
    alternatives = [token, *(f"{token}{number}" for number in range(1, top))][:top]
    ranked = [entry(text, likely - rank) for rank, text in enumerate(alternatives)]
    return entry(token, likely) | {"top_logprobs": ranked}


def _event(payload: object) -> bytes:
    return b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\n\n"
