"""Whole answers of the Responses API become chat completions, and what streams share with them. Pure.

Items of tools that the provider runs itself are left out, and types unknown today. Source: OpenAI, API reference, "The
response object"; recorded traffic.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from addon.answers.usage import read_count, read_service_tier
from addon.dialects.chat_shape import Identity, choice, completion
from addon.dialects.content_blocks import MALFORMED, call_head, text_of
from addon.dialects.responses.items import FORMAT
from policies.usage import Usage

BREAK: Final = "\n\n"
"""What is between two messages of one answer, and between two parts of its reasoning."""

_INCOMPLETE: Final[Mapping[object, str]] = MappingProxyType(
    {"max_output_tokens": "length", "content_filter": "content_filter"}
)
_UNENDED: Final = frozenset({"queued", "in_progress", "failed", "cancelled"})
_TOTALS: Final = MappingProxyType(
    {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens", "total_tokens": "total_tokens"}
)
_DETAILS: Final = MappingProxyType(
    {"input_tokens_details": "prompt_tokens_details", "output_tokens_details": "completion_tokens_details"}
)
_CITATION: Final = "url_citation"
_INDEXES: Final = ("start_index", "end_index")
_CALLS: Final = ("function_call", "custom_tool_call")


def to_completion(
    answer: dict[str, Any], model_slug: str, created_s: int, answer_id: str = ""
) -> dict[str, Any]:
    """Return a whole answer as a chat completion. ``created_s`` is a Unix time in seconds.

    ``answer_id`` is for an answer without an id of its own. Raises ValueError for anything but a response of the API.
    """
    try:
        identity = Identity(text_of(answer.get("id") or answer_id), created_s, model_slug)
        items = answer["output"]
        message = _message(items)
        reason = finish_reason(answer, has_calls="tool_calls" in message)
        made = choice(message, reason)
        if logprobs := [one for part in _parts(items, "output_text") for one in part.get("logprobs") or ()]:
            made["logprobs"] = {"content": logprobs, "refusal": None}
        tier = answer.get("service_tier")
        named = {"service_tier": tier} if isinstance(tier, str) else {}
        return completion(identity, [made], chat_usage(answer.get("usage"))) | named
    except MALFORMED as error:
        raise ValueError("it is not a response of the API") from error


def finish_reason(answer: Mapping[str, Any], *, has_calls: bool) -> str:
    """Return the chat shape's word for how an answer ended. Raises KeyError for one that has not ended."""
    status = answer.get("status")  # Some servers leave it out, or have a word of their own.
    if status == "incomplete":
        details = answer.get("incomplete_details") or {}
        return _INCOMPLETE.get(details.get("reason"), "length")
    if status in _UNENDED:
        raise KeyError(status)
    return "tool_calls" if has_calls else "stop"


def chat_usage(counts: object) -> dict[str, Any] | None:
    """Return the chat shape's usage block, or None when nothing is reported.

    Input includes what came from the cache, and output the reasoning, as in chat. Members that are not the API's own,
    such as costs, stay as they are.
    """
    if not isinstance(counts, Mapping):
        return None
    made: dict[str, Any] = {
        name: value for name, value in counts.items() if name not in _TOTALS and name not in _DETAILS
    }
    for given, name in _TOTALS.items():
        if (count := read_count(counts.get(given))) is not None:
            made[name] = count
    for given, name in _DETAILS.items():
        if isinstance(details := counts.get(given), Mapping):
            made[name] = {key: count for key in details if (count := read_count(details[key])) is not None}
    return made or None


def read_priced(answer: Mapping[str, Any]) -> Usage:
    """Return the service tier of a whole answer, or of a response in an event."""
    tier = answer.get("service_tier")
    return Usage(service_tier=read_service_tier(tier) if isinstance(tier, str) else None)


def call_head_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the call of an item without its arguments or its input. Raises TypeError for an id that is no text."""
    if item["type"] == "function_call":
        return call_head(item["call_id"], item["name"])
    custom = {"name": text_of(item["name"]), "input": ""}
    return {"id": text_of(item["call_id"]), "type": "custom", "custom": custom}


def argument_members(kind: str, text: str) -> dict[str, Any]:
    """Return the members of a call that carry a piece of its arguments or of its input."""
    return {"function": {"arguments": text}} if kind == "function_call" else {"custom": {"input": text}}


def arguments_of(item: Mapping[str, Any]) -> str:
    """Return the arguments, or the input, of a call."""
    return text_of(item["arguments" if item["type"] == "function_call" else "input"])


def encrypted_detail(item: Mapping[str, Any], index: int) -> dict[str, Any]:
    """Return the encrypted content of reasoning as a detail that comes back with the next turn."""
    named = {"id": item["id"]} if isinstance(item.get("id"), str) else {}
    sealed = {"type": "reasoning.encrypted", "data": text_of(item["encrypted_content"])}
    return {**sealed, **named, "format": FORMAT, "index": index}


def reasoning_texts(item: Mapping[str, Any]) -> list[str]:
    """Return the texts of reasoning: its summary, or the reasoning itself where a server shows it."""
    shown = [*(item.get("summary") or ()), *(item.get("content") or ())]
    return [text for part in shown if (text := text_of(part["text"]))]


def chat_annotations(annotations: object, offset_chars: int) -> list[dict[str, Any]]:
    """Return the citations of pages on the web; chat has no others. ``offset_chars`` is where their text begins.

    Source: OpenAI, API reference, "The chat completion object" (annotations).
    """
    cited = [one for one in annotations if one["type"] == _CITATION] if isinstance(annotations, list) else []
    return [{"type": _CITATION, _CITATION: _moved(one, offset_chars)} for one in cited]


def _moved(annotation: Mapping[str, Any], chars: int) -> dict[str, Any]:
    return {
        name: value + chars if name in _INDEXES and isinstance(value, int) else value
        for name, value in annotation.items()
        if name != "type"
    }


def _message(items: list[dict[str, Any]]) -> dict[str, Any]:
    content, annotations = _content(items)
    calls = [_whole_call(item) for item in items if item["type"] in _CALLS]
    message: dict[str, Any] = {"role": "assistant", "content": content if content or not calls else None}
    if refusal := "".join([text_of(part["refusal"]) for part in _parts(items, "refusal")]):
        message |= {"content": content or None, "refusal": refusal}
    thoughts = [item for item in items if item["type"] == "reasoning"]
    if texts := [text for item in thoughts for text in reasoning_texts(item)]:
        message["reasoning_content"] = BREAK.join(texts)
    if sealed := [item for item in thoughts if item.get("encrypted_content")]:
        message["reasoning_details"] = [encrypted_detail(item, index) for index, item in enumerate(sealed)]
    if annotations:
        message["annotations"] = annotations
    return message | ({"tool_calls": calls} if calls else {})


def _content(items: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Return the text of all messages, and its annotations."""
    content = ""
    annotations: list[dict[str, Any]] = []
    for item in items:
        parts = list(_parts([item], "output_text"))
        if content and any(part["text"] for part in parts):
            content += BREAK
        for part in parts:
            annotations += chat_annotations(part.get("annotations"), len(content))
            content += text_of(part["text"])
    return content, annotations


def _parts(items: list[dict[str, Any]], kind: str) -> Iterable[dict[str, Any]]:
    said = (item["content"] for item in items if item["type"] == "message")
    return (part for content in said for part in content if part["type"] == kind)


def _whole_call(item: Mapping[str, Any]) -> dict[str, Any]:
    kind = item["type"]
    head, members = call_head_of(item), argument_members(kind, arguments_of(item))
    (name, arguments), *_ = members.items()
    return {**head, name: {**head[name], **arguments}}
