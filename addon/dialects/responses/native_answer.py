"""Whole answers of the Responses API for its own clients, and the facts that are read in whole and streamed ones. Pure.

An answer keeps its bytes, except for the model's name.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from addon.answers.context import AnswerContext, encode_slug
from addon.answers.stream_body import reported_failure
from addon.answers.usage import merge_usage, parse_usage
from addon.answers.whole import Answer, decode_answer, failed
from addon.dialects.responses.answer import chat_usage, read_priced
from addon.text.errors import ErrorAnswer, unreadable_answer
from addon.text.json_edits import apply_edits, model_edits
from policies.family import Family
from policies.usage import Usage

_FAILED: Final = ("failed", "cancelled")
_RUNNING: Final = ("queued", "in_progress")
_NOT_ENDED: Final = unreadable_answer("it has not ended.")
_NO_RESPONSE: Final = unreadable_answer("it is not a response of the API.")
_SAID: Final = ("arguments", "input", "code", "action", "operation", "encrypted_content")
"""The members of items that the model wrote, beside texts in parts. What a tool found is none of them."""
_NO_SEARCH: Final = ("open_page", "find_in_page", "find")
"""Actions of a search's call that only read what was found. Source: OpenAI, "Web search", "Output and citations"."""


def read_native(body: bytes, context: AnswerContext) -> Answer:
    """Return the whole answer of a 2xx with the catalog slug as its model."""
    payload = decode_answer(body, context)
    if isinstance(payload, ErrorAnswer):
        return failed(payload)
    if not isinstance(output := payload.get("output"), list):
        return failed(_NO_RESPONSE)
    if failure := find_failure(payload, context):
        return failed(failure)
    shown = apply_edits(body, model_edits(body, payload, encode_slug(context.model_slug), insert=True))
    usage = read_usage(payload, context.family, sum(map(count_searches, output)))
    return Answer(shown, usage, finish_reason(payload), text_chars=sum(map(item_chars, output)))


def find_failure(response: Mapping[str, Any], context: AnswerContext) -> ErrorAnswer | None:
    """Return why a response is no answer, None where it is one. Some servers have other words, or none, for that."""
    status = response.get("status")
    if status in _FAILED:
        return reported_failure(response, context)
    return _NOT_ENDED if status in _RUNNING else None


def finish_reason(response: Mapping[str, Any]) -> str:
    """Return the reason of a response's end, as its provider words it: its status, or why it is incomplete."""
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, Mapping) else None
    return str(reason or response.get("status") or "completed")


def read_usage(response: Mapping[str, Any], family: Family, searches: int) -> Usage | None:
    """Return the counts of a response, None where it reports none. ``searches`` were seen in its items."""
    counted = parse_usage({"usage": chat_usage(response.get("usage"))}, family)
    if counted is None:
        return Usage(searches=searches) if searches else None
    usage = merge_usage(counted, read_priced(response))
    return replace(usage, searches=searches) if searches else usage


def count_searches(item: object) -> int:
    """Return 1 for an item that is a search on the web, which costs a fee, else 0."""
    if not isinstance(item, Mapping) or item.get("type") != "web_search_call":
        return 0
    action = item.get("action")
    return 0 if isinstance(action, Mapping) and action.get("type") in _NO_SEARCH else 1


def item_chars(item: object) -> int:
    """Return the length of all that the model wrote in an item, for estimates."""
    if not isinstance(item, Mapping):
        return 0
    said = [item[name] for name in _SAID if item.get(name)]
    return sum(map(_chars, said)) + sum(map(_part_chars, _parts(item)))


def _parts(item: Mapping[str, Any]) -> Iterable[Any]:
    for name in ("content", "summary"):
        if isinstance(listed := item.get(name), list):
            yield from listed


def _part_chars(part: object) -> int:
    texts = [part.get(name) for name in ("text", "refusal")] if isinstance(part, Mapping) else []
    return sum(len(text) for text in texts if isinstance(text, str))


def _chars(said: Any) -> int:
    return len(said) if isinstance(said, str) else len(json.dumps(said))
