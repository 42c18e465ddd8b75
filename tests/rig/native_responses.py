"""OpenAI's Responses API on loopback: it refuses what the API refuses, and streams by its grammar.

Nothing here comes from the gateway. ``Responses`` is a provider with a memory: reasoning that comes back must be of its
own making. ``item`` functions make output items, ``response`` an answer of them, and ``events`` its stream.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rig.scripts import Received, Script, chunked, ordinary, whole
from rig.vendors.openai import OPENAI
from rig.vendors.openai_responses import OPENAI_RESPONSES
from rig.vendors.rules import refusal

type Item = dict[str, Any]
type Body = Mapping[str, Any]

USAGE = {
    "input_tokens": 20,
    "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 4},
    "output_tokens": 17,
    "output_tokens_details": {"reasoning_tokens": 10},
    "total_tokens": 37,
}
DEFAULTS: Mapping[str, Any] = {
    "background": False,
    "error": None,
    "frequency_penalty": 0.0,
    "incomplete_details": None,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": "medium", "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
    "metadata": {},
}
_SILENT = ("input", "stream", "include", "stream_options", "client_metadata", "context_management")


# --- output items ------------------------------------------------------------------------------------------------


def message(*texts: str, refusal: str | None = None, annotations: Sequence[Any] = ()) -> Item:
    """Return a message: a part of text for each of ``texts``, then a refusal."""
    parts = [
        {"type": "output_text", "annotations": list(annotations), "logprobs": [], "text": text}
        for text in texts
    ]
    said = [{"type": "refusal", "refusal": refusal}] if refusal is not None else []
    return {"type": "message", "role": "assistant", "status": "completed", "content": [*parts, *said]}


def reasoning(*summaries: str, encrypted: str | None = "sealed") -> Item:
    """Return reasoning: a part of its summary for each of ``summaries``, and its encrypted content."""
    item: Item = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in summaries],
    }
    return item if encrypted is None else {**item, "encrypted_content": encrypted}


def function_call(name: str, arguments: Any = None, call_id: str = "call_1") -> Item:
    """Return a call of a function. ``arguments`` other than a str are sent as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {
        "type": "function_call",
        "status": "completed",
        "arguments": text,
        "call_id": call_id,
        "name": name,
    }


def custom_call(name: str, text: str, call_id: str = "call_1") -> Item:
    """Return a call of a custom tool."""
    return {
        "type": "custom_tool_call",
        "status": "completed",
        "call_id": call_id,
        "input": text,
        "name": name,
    }


_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}


# --- answers -----------------------------------------------------------------------------------------------------


def response(*items: Item, to: Body | None = None, number: int = 1, **changes: Any) -> dict[str, Any]:
    """Return the answer of these items to the request ``to``, which most of its fields repeat."""
    asked = to or {}
    output = [
        {"id": f"{_PREFIXES[item['type']]}_{number}_{index}", **item} for index, item in enumerate(items)
    ]
    if "reasoning.encrypted_content" not in asked.get("include", ["reasoning.encrypted_content"]):
        output = [{k: v for k, v in item.items() if k != "encrypted_content"} for item in output]
    repeated = {name: value for name, value in asked.items() if name not in _SILENT}
    made = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_760_000_000,
        "status": "completed",
        "completed_at": 1_760_000_001,
        "model": "gpt-vendor",
        "output": output,
        "usage": dict(USAGE),
    }
    tier = {"service_tier": "default"} if repeated.get("service_tier") in (None, "auto") else {}
    return {
        **DEFAULTS,
        **made,
        **repeated,
        "model": f"{asked.get('model', 'gpt-vendor')}-2026-01-01",
        **tier,
    } | changes


def incomplete(*items: Item, reason: str = "max_output_tokens", **changes: Any) -> dict[str, Any]:
    """Return an answer that was cut."""
    cut = [{**item, "status": "incomplete"} if item is items[-1] else item for item in items]
    details = {"status": "incomplete", "incomplete_details": {"reason": reason}, "completed_at": None}
    return response(*cut, **{**details, **changes})


def failed(code: str = "server_error", text: str = "The model failed.", **changes: Any) -> dict[str, Any]:
    """Return an answer that failed."""
    error = {"code": code, "message": text}
    return response(status="failed", error=error, usage=None, completed_at=None, **changes)


_ENDS = {"completed": "response.completed", "incomplete": "response.incomplete", "failed": "response.failed"}


def events(answer: Mapping[str, Any], pieces: int = 2) -> list[dict[str, Any]]:
    """Return the stream of an answer, numbered. Each of its texts comes in ``pieces`` deltas at most."""
    begun = {**answer, "status": "in_progress", "output": [], "usage": None, "completed_at": None}
    begun |= {"incomplete_details": None, "error": None}
    found = [("response.created", {"response": begun}), ("response.in_progress", {"response": begun})]
    for index, item in enumerate(answer["output"]):
        found += [(kind, {"output_index": index, **fields}) for kind, fields in _item_events(item, pieces)]
    if answer["status"] == "failed":
        error = {"type": "server_error", "param": None, **answer["error"]}
        found.append(("error", {"error": error}))
    found.append((_ENDS[answer["status"]], {"response": dict(answer)}))
    return [{"type": kind, **fields, "sequence_number": n} for n, (kind, fields) in enumerate(found)]


def _item_events(item: Item, pieces: int) -> Iterator[tuple[str, dict[str, Any]]]:
    kind, at = item["type"], {"item_id": item["id"]}
    emptied = {"message": {"content": []}, "function_call": {"arguments": ""}, "reasoning": {"summary": []}}
    shell = {**item, **emptied.get(kind, {"input": ""})}
    if "status" in item:
        shell["status"] = "in_progress"
    yield "response.output_item.added", {"item": shell}
    if kind == "message":
        for index, part in enumerate(item["content"]):
            yield from _part_events(part, {**at, "content_index": index}, pieces)
    elif kind == "reasoning":
        for index, part in enumerate(item["summary"]):
            place = {**at, "summary_index": index}
            yield "response.reasoning_summary_part.added", {**place, "part": {**part, "text": ""}}
            for piece in _cut(part["text"], pieces):
                yield "response.reasoning_summary_text.delta", {**place, "delta": piece, "obfuscation": "x7"}
            yield "response.reasoning_summary_text.done", {**place, "text": part["text"]}
            yield "response.reasoning_summary_part.done", {**place, "part": part}
    else:
        stem, name = (
            ("function_call_arguments", "arguments")
            if kind == "function_call"
            else ("custom_tool_call_input", "input")
        )
        for piece in _cut(item[name], pieces):
            yield f"response.{stem}.delta", {**at, "delta": piece, "obfuscation": "Qw3"}
        yield f"response.{stem}.done", {**at, name: item[name]}
    yield "response.output_item.done", {"item": item}


def _part_events(part: Item, at: dict[str, Any], pieces: int) -> Iterator[tuple[str, dict[str, Any]]]:
    kind, name = part["type"], "refusal" if part["type"] == "refusal" else "text"
    padding = {"logprobs": [], "obfuscation": "aB3"} if kind == "output_text" else {}
    empty = {**part, name: "", **({"annotations": []} if "annotations" in part else {})}
    yield "response.content_part.added", {**at, "part": empty}
    for piece in _cut(part[name], pieces):
        yield f"response.{kind}.delta", {**at, "delta": piece, **padding}
    for index, annotation in enumerate(part.get("annotations", ())):
        place = {**at, "annotation_index": index}
        yield "response.output_text.annotation.added", {**place, "annotation": annotation}
    yield f"response.{kind}.done", {**at, name: part[name], **({"logprobs": []} if padding else {})}
    yield "response.content_part.done", {**at, "part": part}


def _cut(text: str, pieces: int) -> list[str]:
    size = -(-len(text) // pieces) or 1
    return [text[at : at + size] for at in range(0, len(text), size)]


def frame(event: Mapping[str, Any]) -> bytes:
    """Return one event as the API frames it."""
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def script(answer: Mapping[str, Any], *, streams: bool, pieces: int = 2) -> Script:
    """Return an answer, whole or as a stream with one write an event."""
    if not streams:
        return whole(dict(answer))
    return chunked(*map(frame, events(answer, pieces)), content_type="text/event-stream; charset=utf-8")


# --- the provider ------------------------------------------------------------------------------------------------

type Turn = Sequence[Item] | Callable[[Body], Mapping[str, Any]]
"""The output items of an answer, or a function from the request to the answer."""


class Responses:
    """A behaviour of ``Upstream``: chat completions and Responses of one strict vendor.

    ``turns`` are the answers over Responses, one after another; the last one stays. Encrypted reasoning of an answer is
    unlike any other, and only such reasoning may come back. ``bodies`` are the requests that were accepted there, and
    ``refusals`` those that were not.
    """

    def __init__(self, *turns: Turn, pieces: int = 2) -> None:
        self.bodies: list[Any] = []
        self.refusals: list[Any] = []
        self.issued: list[str] = []
        self._turns, self._pieces, self._lock = turns, pieces, threading.Lock()

    def __call__(self, request: Received) -> Script:
        path = request.target.partition("?")[0]
        body = request.json()
        if not path.endswith("/responses"):
            refused = refusal(OPENAI, path, request.body)
            return self._refuse(*refused) if refused else ordinary(request)
        with self._lock:
            if refused := refusal(OPENAI_RESPONSES, path, request.body) or self._foreign_reasoning(body):
                return self._refuse(*refused)
            self.bodies.append(body)
            answer = self._answer(body)
        return script(answer, streams=body.get("stream") is True, pieces=self._pieces)

    def _answer(self, body: Body) -> Mapping[str, Any]:
        number = len(self.bodies)
        turn = self._turns[min(number, len(self._turns)) - 1] if self._turns else (message("hello"),)
        if callable(turn):
            return turn(body)
        items = [self._sealed(item, number, index) for index, item in enumerate(turn)]
        return response(*items, to=body, number=number)

    def _sealed(self, item: Item, number: int, index: int) -> Item:
        if not item.get("encrypted_content"):
            return item
        self.issued.append(f"{item['encrypted_content']}-{number}-{index}")
        return {**item, "encrypted_content": self.issued[-1]}

    def _foreign_reasoning(self, body: Body) -> tuple[int, Any] | None:
        """Refuse encrypted reasoning of another provider. Source: openai/codex#5493."""
        given = body["input"] if isinstance(body["input"], list) else []
        for item in given:
            if item.get("type") == "reasoning" and item.get("encrypted_content") not in (*self.issued, None):
                text = "The encrypted content could not be verified. Reason: Encrypted content could not be"
                error = {
                    "message": f"{text} decrypted or parsed.",
                    "type": "invalid_request_error",
                    "param": None,
                }
                return 400, {"error": {**error, "code": "invalid_encrypted_content"}}
        return None

    def _refuse(self, status: int, error: Any) -> Script:
        self.refusals.append(error)
        return whole(error, status)
