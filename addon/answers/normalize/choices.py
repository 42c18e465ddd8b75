"""The choices of an answer in the contract's shape. Pure.

``ChunkNormalizer`` normalizes the chunks of one stream, ``normalize_message_choices`` a whole answer. Neither changes
its input. To normalize the result again changes nothing.
"""

from typing import Any, Final

import msgspec

from addon.answers.bounds import check_choices
from addon.answers.normalize.content import with_plain_content, with_text
from addon.answers.normalize.edits import keep_if_same, with_member, without
from addon.answers.normalize.finish_reason import (
    STANDARD_WORDS,
    finish_reason_of_empty,
    standard_finish_reason,
)
from addon.answers.normalize.list_index import ListIndexes
from addon.answers.normalize.reasoning import has_plain_text, with_reasoning_content
from addon.answers.normalize.shape import check_choice, check_shown
from addon.answers.normalize.stream_choice import ChoiceResult, StreamChoice
from addon.answers.normalize.think_tags import split_text
from addon.answers.normalize.tool_calls import whole_calls, with_calls
from policies.family import Family


class ChunkResult(msgspec.Struct, frozen=True, gc=False):
    """The normalized choices of one chunk.

    | field | meaning |
    |---|---|
    | ``choices`` | the new choices, None when the chunk stays as it is |
    | ``is_repeatable`` | a chunk that differs only in the text of content, reasoning or arguments has the same result |
    | ``is_empty`` | nothing is left in the chunk, so it is not sent |
    | ``is_renamed`` | reasoning gets its key, so that ``reasoning.reasoning_edits`` can make the change |
    | ``role_dropped`` | a repeated role is left out, so that ``role.role_edits`` can make the change |
    | ``is_numbered`` | the only choice gets index 0, so that ``list_index.number_edits`` can make the change |
    | ``indexes`` | its only detail gets one of these, so that ``list_index.detail_edit`` can make the change |

    With ``is_renamed``, ``role_dropped`` and ``indexes``, nothing else changes. With ``is_numbered``, nothing else
    changes at all.
    """

    choices: list[Any] | None
    is_repeatable: bool
    is_empty: bool = False
    is_renamed: bool = False
    role_dropped: bool = False
    is_numbered: bool = False
    indexes: ListIndexes | None = None


_REPEATABLE: Final = ChunkResult(None, True)
_UNCHANGED: Final = ChunkResult(None, False)


class ChunkNormalizer:
    """The normalizer of one streamed answer of a model of this family.

    ``n`` is how many choices were asked for, None when that is unknown. A single choice has index 0, whatever index
    its provider writes (TGI 1.4 counts tokens there). ``seed`` makes generated ids unique to this answer.
    """

    def __init__(self, family: Family, n: int | None = None, *, seed: str = "") -> None:
        self._seed = seed
        self._think_tags = family.think_tags
        self._is_single = n == 1
        self._choices: dict[int, StreamChoice] = {}

    def normalize(self, chunk: dict[str, Any]) -> ChunkResult:
        """Return the result for the next chunk. Raises NoChoiceError."""
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            return ChunkResult([], False) if "choices" in chunk else _UNCHANGED
        plain = [self._is_plain(choice) for choice in choices]
        if all(plain):
            return _REPEATABLE
        results = [self._normalize_choice(position, choice) for position, choice in enumerate(choices)]
        is_repeatable = all([one.is_repeatable for one in results])  # noqa: C419  (a list costs no calls)
        normal = keep_if_same(choices, [one.choice for one in results])
        if normal is choices:
            return _REPEATABLE if is_repeatable else _UNCHANGED
        is_renamed = len(results) == 1 and results[0].is_renamed
        role_dropped = len(results) == 1 and results[0].role_dropped
        lost_text = any(one.lost_text for one in results)
        is_empty = lost_text and not chunk.get("usage") and all(map(_is_silent, normal))
        is_numbered = len(results) == 1 and results[0].is_numbered
        indexes = results[0].indexes if len(results) == 1 else None
        is_edit = bool(is_renamed or role_dropped or is_numbered or indexes)
        is_repeatable = is_repeatable and is_edit
        return ChunkResult(normal, is_repeatable, is_empty, is_renamed, role_dropped, is_numbered, indexes)

    def finish(self) -> list[dict[str, Any]]:
        """Return the choices that are left to send when the stream has ended."""
        return [left for choice in self._choices.values() if (left := choice.finish())]

    def _is_plain(self, choice: Any) -> bool:
        """Return whether no rule applies, after a quick look. Nearly every choice is plain."""
        if type(choice) is not dict or choice.get("finish_reason") is not None or "message" in choice:
            return False
        index, delta = choice.get("index"), choice.get("delta")
        if type(index) is not int or (index and self._is_single) or type(delta) is not dict:
            return False
        if delta.get("tool_calls") is not None or delta.get("role") or delta.get("annotations"):
            return False
        if not has_plain_text(delta):
            return False
        state = self._choices.get(index)
        if state is None or state.tags is not None:
            return False
        if delta.get("content"):
            state.message.has_delta_text = True
        if delta.get("reasoning_content"):
            if state.has_details and not state.has_reasoning:
                return False  # The next details are not new.
            state.has_reasoning = True
        return True

    def _normalize_choice(self, position: int, choice: Any) -> ChoiceResult:
        check_choice(choice)
        index = choice.get("index")
        if type(index) is not int or (index and self._is_single):
            index = 0 if self._is_single else position
            numbered = {**choice, "index": index}
            result = self._state(index).normalize(numbered)
            is_alike, is_only_numbered = result.is_repeatable, result.choice is numbered and not index
            return ChoiceResult(
                result.choice,
                is_repeatable=is_alike and is_only_numbered,
                lost_text=result.lost_text,
                is_numbered=is_only_numbered,
            )
        return self._state(index).normalize(choice)

    def _state(self, index: int) -> StreamChoice:
        state = self._choices.get(index)
        if state is None:
            check_choices(len(self._choices))
            state = self._choices[index] = StreamChoice(
                index, (self._seed, index), think_tags=self._think_tags
            )
        return state


def normalize_message_choices(
    choices: list[Any], family: Family, answer_id: object = None
) -> list[Any] | None:
    """Return the normalized choices of a whole answer, or None when they need no change.

    ``answer_id`` makes generated ids of tool calls differ from answer to answer. Raises NoChoiceError.
    """
    if not family.think_tags and all(map(_is_plain_whole, choices)):
        return None
    made = [
        _whole_choice(choice, position, answer_id, think_tags=family.think_tags)
        for position, choice in enumerate(choices)
    ]
    normal = keep_if_same(choices, made)
    return None if normal is choices else normal


def _is_plain_whole(choice: Any) -> bool:
    """Return whether no rule applies, after a quick look. Nearly every whole choice is plain."""
    if type(choice) is not dict or type(choice.get("index")) is not int:
        return False
    message, reason = choice.get("message"), choice.get("finish_reason")
    if type(message) is not dict or message.get("tool_calls") is not None:
        return False
    if type(role := message.get("role")) is not str or not role:
        return False
    if type(reason) is not str or reason not in STANDARD_WORDS:
        return False
    return has_plain_text(message)


def _whole_choice(choice: dict[str, Any], index: int, seed: object, *, think_tags: bool) -> dict[str, Any]:
    """Return the choice at position ``index`` in the contract's shape. ``seed`` is the id of its answer."""
    check_choice(choice)
    choice = choice if type(choice.get("index")) is int else {**choice, "index": index}
    shaped = _with_message(choice)
    message = with_reasoning_content(with_plain_content(shaped["message"], drops_empty=False))
    if think_tags:
        message = _without_tags(message)
    message = with_calls(message, lambda calls: whole_calls(calls, (seed, choice["index"])))
    check_shown(message, is_whole=True)
    made = with_member(shaped, "message", message)
    calls_tools = bool(message.get("tool_calls"))
    standard = standard_finish_reason(choice.get("finish_reason"), calls_tools=calls_tools)
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


def _is_silent(choice: Any) -> bool:
    if not isinstance(choice, dict):
        return False
    others = any(value for key, value in choice.items() if key not in ("index", "delta"))
    return not others and not any(choice["delta"].values())
