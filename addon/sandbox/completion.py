"""The completion that answers a request, as one object or as server-sent events. Pure."""

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice, zip_longest
from typing import Any, NamedTuple

from addon.sandbox.reply import called_tools, content, count_tokens, reasoning, split_tokens
from addon.sandbox.request import ChatRequest, Message, SandboxError
from addon.sandbox.schema import simplest_value

CACHED_ROLES = ("system", "developer")
TOKENS_OF_OTHER_PART = 85
_CODES = {
    **{401: "invalid_api_key", 403: "permission_denied", 404: "model_not_found", 413: "request_too_large"},
    **{429: "rate_limit_exceeded", 503: "overloaded"},
}

type Object = dict[str, Any]


def requested_error(status: int) -> SandboxError:
    """Return the error that a directive asks for."""
    code = _CODES.get(status, "invalid_request" if status < 500 else "server_error")
    return SandboxError(status, f"The sandbox was asked for an error with status {status}.", code=code)


class _Choice(NamedTuple):
    deltas: list[Object]
    """One delta a token."""
    finish_reason: str


class Completion:
    """The answer to ``request``. The same request gets the same choices and usage.

    Raise ``SandboxError`` when the sandbox can't do what the request asks for.
    """

    def __init__(self, request: ChatRequest, completion_id: str, created_s: int) -> None:
        self._request, self._flags = request, request.directives.flags
        self._envelope = {"id": completion_id, "created": created_s, "model": request.model}
        self._envelope["system_fingerprint"] = "sandbox"
        call_id = completion_id.replace("chatcmpl-", "call_")
        self._choices = [_choice(request, f"{call_id}_{index}", index) for index in range(request.n or 1)]
        self._usage = {} if "no-usage" in self._flags else {"usage": _usage(request, self._choices)}
        if "silent" in self._flags:
            self._choices = [_Choice([], end.replace("tool_calls", "stop")) for _, end in self._choices]

    def body(self) -> bytes:
        """Return the answer as one object."""
        if "error-200" in self._flags:
            return json.dumps(requested_error(500).body).encode()
        choices = [
            self._part(index, {"message": _message(deltas)}, deltas, finish_reason)
            for index, (deltas, finish_reason) in enumerate(self._choices)
        ]
        answer = self._envelope | {"object": "chat.completion", "choices": choices} | self._usage
        return json.dumps(answer).encode()

    def events(self) -> Iterator[bytes]:
        """Yield the answer as server-sent events."""
        payloads, error = self._chunks(), json.dumps(requested_error(500).body)
        end = [] if "no-done" in self._flags else ["[DONE]"]
        if "error-200" in self._flags:
            payloads, end = iter(()), [error]
        elif self._flags & {"drop", "error-in-stream"}:
            middle = len(self._choices) + sum(len(choice.deltas) for choice in self._choices) // 2
            payloads, end = islice(payloads, middle), [error] if "error-in-stream" in self._flags else []
        for data in chain((json.dumps(payload, ensure_ascii=False) for payload in payloads), end):
            yield f"data: {data}\n\n".encode()

    def _chunks(self) -> Iterator[Object]:
        options = self._request.stream_options
        usage = self._usage if options and options.include_usage else {}
        envelope = self._envelope | {"object": "chat.completion.chunk"} | dict.fromkeys(usage)
        parts = [self._chunk_parts(index, choice) for index, choice in enumerate(self._choices)]
        # The choices take turns, as providers send them.
        for part in filter(None, chain.from_iterable(zip_longest(*parts))):
            yield envelope | {"choices": [part]}
        if usage:
            yield envelope | {"choices": []} | usage

    def _chunk_parts(self, index: int, choice: _Choice) -> Iterator[Object]:
        has_calls = any("tool_calls" in delta for delta in choice.deltas)
        yield self._part(index, {"delta": {"role": "assistant", "content": None if has_calls else ""}}, [])
        for delta in choice.deltas:
            yield self._part(index, {"delta": delta}, [delta])
        yield self._part(index, {"delta": {}}, [], choice.finish_reason)

    def _part(self, index: int, value: Object, deltas: list[Object], end: str | None = None) -> Object:
        """Return one element of ``choices``."""
        tokens = [delta["content"] for delta in deltas if self._request.logprobs and "content" in delta]
        entries = [_logprob(token, self._request.top_logprobs or 0) for token in tokens]
        has_logprobs = entries or (self._request.logprobs and "message" in value)
        logprobs = {"content": entries, "refusal": None} if has_logprobs else None
        return {"index": index, **value, "logprobs": logprobs, "finish_reason": end}


def _choice(request: ChatRequest, call_id: str, index: int) -> _Choice:
    deltas: list[Object] = [{"reasoning_content": token} for token in split_tokens(reasoning(request))]
    tools = called_tools(request)
    for position, tool in enumerate(tools):
        # Only the first delta of a call has its id and its name.
        head, name = {"id": f"{call_id}_{position}", "type": "function"}, {"name": tool.function.name}
        for token in split_tokens(json.dumps(simplest_value(tool.function.parameters) or {})):
            call = {"index": position, **head, "function": {**name, "arguments": token}}
            deltas.append({"tool_calls": [call]})
            head, name = {}, {}
    if not tools:
        deltas += [{"content": token} for token in split_tokens(content(request, index))]
    cap = min(filter(None, (request.max_tokens, request.max_completion_tokens)), default=len(deltas))
    finish_reason = "length" if cap < len(deltas) else "tool_calls" if tools else "stop"
    return _Choice(deltas[:cap], finish_reason)


def _message(deltas: list[Object]) -> Object:
    """Return the message that ``deltas`` add up to."""
    calls: list[Object] = []
    for part in (part for delta in deltas for part in delta.get("tool_calls", ())):
        if "id" in part:
            calls.append({"id": part["id"], "type": "function", "function": {**part["function"]}})
        else:
            calls[-1]["function"]["arguments"] += part["function"]["arguments"]
    text = "".join(delta.get("content", "") for delta in deltas)
    message: Object = {"role": "assistant", "content": text, "refusal": None}
    if calls:
        message |= {"content": None, "tool_calls": calls}
    if thoughts := "".join(delta.get("reasoning_content", "") for delta in deltas):
        message["reasoning_content"] = thoughts
    return message


def _usage(request: ChatRequest, choices: list[_Choice]) -> Object:
    cached = _count_messages(one for one in request.messages if one.role in CACHED_ROLES)
    others = _count_messages(one for one in request.messages if one.role not in CACHED_ROLES)
    prompt = cached + others + count_tokens(*(tool.model_dump_json() for tool in request.tools or ()))
    deltas = [delta for choice in choices for delta in choice.deltas]
    return {
        "prompt_tokens": prompt,
        "completion_tokens": len(deltas),
        "total_tokens": prompt + len(deltas),
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": sum("reasoning_content" in one for one in deltas)},
    }


def _count_messages(messages: Iterable[Message]) -> int:
    texts: list[str] = []
    other_parts = 0
    for message in messages:
        calls = [call.function for call in message.tool_calls or ()]
        texts += [message.text, *(f"{call.name} {call.arguments}" for call in calls)]
        other_parts += message.other_parts
    return count_tokens(*texts) + TOKENS_OF_OTHER_PART * other_parts


def _logprob(token: str, top: int) -> Object:
    """Return an invented log probability of ``token``, with ``top`` tokens of which each is less likely."""
    names = [token, *(f"{token}{number}" for number in range(1, top))]
    ranked = [
        {"token": name, "logprob": -0.01 * len(token) - rank, "bytes": list(name.encode())}
        for rank, name in enumerate(names)
    ]
    return ranked[0] | {"top_logprobs": ranked[:top]}
