"""One choice of a whole answer: the same rules as in a stream, without state. Pure."""

from typing import Any

from addon.answers.normalize.content import with_plain_content, with_text
from addon.answers.normalize.edits import with_member, without
from addon.answers.normalize.finish_reason import finish_reason_of_empty, standard_finish_reason
from addon.answers.normalize.reasoning import with_reasoning_content
from addon.answers.normalize.think_tags import split_text
from addon.answers.normalize.tool_calls import whole_calls, with_calls


def whole_choice(choice: dict[str, Any], index: int, seed: object, *, think_tags: bool) -> dict[str, Any]:
    """Return the choice at position ``index`` in the contract's shape. ``seed`` is the id of its answer."""
    choice = choice if type(choice.get("index")) is int else {**choice, "index": index}
    shaped = _with_message(choice)
    message = with_reasoning_content(with_plain_content(shaped["message"], drops_empty=False))
    if think_tags:
        message = _without_tags(message)
    message = with_calls(message, lambda calls: whole_calls(calls, (seed, choice["index"])))
    made = with_member(shaped, "message", message)
    if (reason := choice.get("finish_reason")) is None:
        return made
    calls_tools = bool(message.get("tool_calls"))
    standard = standard_finish_reason(reason, calls_tools=calls_tools)
    return with_member(made, "finish_reason", standard or finish_reason_of_empty(calls_tools=calls_tools))


def _with_message(choice: dict[str, Any]) -> dict[str, Any]:
    """Return the choice with a message. Google's compatible endpoint may leave out an empty one."""
    message, text = choice.get("message"), choice.get("text")
    if isinstance(message, dict):
        return choice if message.get("role") else {**choice, "message": {**message, "role": "assistant"}}
    made = without(choice, "text") if isinstance(text, str) else choice
    return {**made, "message": {"role": "assistant", "content": text if isinstance(text, str) else None}}


def _without_tags(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if message.get("reasoning_content") or not isinstance(content, str):
        return message
    text = split_text(content)
    return message if text.content == content else with_text(message, text, drops_empty=False)
