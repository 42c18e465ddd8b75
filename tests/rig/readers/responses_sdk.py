"""A recording of the Responses API, as OpenAI's SDK reads it: a whole answer, or the last event of a stream."""

from collections.abc import Mapping, Sequence
from typing import Any

from rig.native_responses_answers import meaning_of_response, response_of
from rig.readers import Answer, ReadChoice, ToolCall, read_arguments

ENDS = ("response.completed", "response.incomplete")
UNENDED = ("queued", "in_progress", "failed", "cancelled")
_NAMES = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}


def has_ended(payloads: Sequence[Any]) -> bool:
    """Return whether a recording has the end of an answer."""
    found = [one for one in payloads if isinstance(one, Mapping)]
    if any(one.get("type") == "error" for one in found):
        return False
    return any(one.get("type") in ENDS or _is_whole(one) for one in found)


def _is_whole(payload: Mapping[str, Any]) -> bool:
    return "output" in payload and not payload.get("error") and payload.get("status") not in UNENDED


def read(payloads: Sequence[Mapping[str, Any]]) -> Answer:
    """Read an answer, whole or streamed."""
    first = payloads[0]
    answer = first if _is_whole(first) else response_of(payloads)
    meant = meaning_of_response(answer)
    calls = [ToolCall(call_id, name, read_arguments(said)) for call_id, name, said in meant["calls"]]
    choice = ReadChoice(meant["text"], meant["reasoning"], calls, meant["finish_reason"])
    return Answer({0: choice}, _usage(answer.get("usage")))


def _usage(counts: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the counts in the chat shape; other members keep their names."""
    if counts is None:
        return None
    found: dict[str, Any] = {}
    for name, value in counts.items():
        renamed = name.replace("input_tokens_d", "prompt_tokens_d").replace(
            "output_tokens_d", "completion_tokens_d"
        )
        found[_NAMES.get(name, renamed)] = value
    return found
