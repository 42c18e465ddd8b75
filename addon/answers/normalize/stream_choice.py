"""One choice of a stream, chunk by chunk: every rule has its turn, and what it must remember stands here. Pure."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from addon.answers.normalize.content import with_plain_content, with_text
from addon.answers.normalize.cumulative import Cumulative
from addon.answers.normalize.edits import with_member, without
from addon.answers.normalize.finish_reason import finish_reason_of_empty, standard_finish_reason
from addon.answers.normalize.list_index import ListIndexes
from addon.answers.normalize.reasoning import is_only_renamed, with_reasoning_content
from addon.answers.normalize.role import Role
from addon.answers.normalize.think_tags import ThinkTags, Told
from addon.answers.normalize.tool_calls import StreamedCalls, with_calls


class Made(NamedTuple):
    """What became of a choice in one chunk; see ``choices.Normal``. ``swallowed``: think tags took text of it."""

    choice: Any
    repeatable: bool
    renamed: bool = False
    unroled: bool = False
    swallowed: bool = False


class StreamChoice:
    """The choice with this ``index``; ``seed`` tells it from others in ids that are made."""

    def __init__(self, index: int, seed: Sequence[object], *, think_tags: bool) -> None:
        self.tags = ThinkTags() if think_tags else None
        """None as soon as all that follows is answer."""
        self.role = Role()
        self.cumulative = Cumulative()
        self.has_reasoning = False
        """Reasoning text was told by itself, so that the same text in its details is not new."""
        self._index = index
        self._calls = StreamedCalls(seed)
        self._lists = ListIndexes()
        self._finish_reason: str | None = None
        self._finished_empty = False

    def normalize(self, choice: dict[str, Any]) -> Made:
        """Return what becomes of the choice in the next chunk."""
        before = self._calls.begun, self.role.told
        was_tagged = self.tags is not None
        ends = choice.get("finish_reason") is not None
        shaped = self._with_delta(choice)
        given = shaped["delta"]
        once = self.role.once(given)
        plain = with_plain_content(once, drops_empty=True)
        reasoned = with_reasoning_content(plain, reads_details=not self.has_reasoning)
        self.has_reasoning = self.has_reasoning or any(map(plain.get, ("reasoning_content", "reasoning")))
        told = self._without_tags(reasoned, ends=ends)
        listed = self._lists.number(with_calls(told, self._calls.deltas))
        made = with_member(shaped, "delta", listed)
        if ends:
            made = with_member(made, "finish_reason", self._reason(choice["finish_reason"]))
        same_else = shaped is choice and made.get("finish_reason") == choice.get("finish_reason")
        renamed = reasoned is not plain
        in_bytes = (
            same_else and listed is reasoned and plain is once and (not renamed or is_only_renamed(once))
        )
        steady = not (ends or was_tagged or (self._calls.begun, self.role.told) != before)
        return Made(
            made,
            repeatable=steady and in_bytes,
            renamed=in_bytes and renamed,
            unroled=in_bytes and once is not given,
            swallowed=told is not reasoned,
        )

    def last(self) -> dict[str, Any] | None:
        """Return what is left to be told once the stream has ended."""
        told = self.tags.end() if self.tags else Told("", "")
        self.tags = None
        reason = None
        if self._finished_empty and self._finish_reason is None:
            reason = self._finish_reason = finish_reason_of_empty(calls_tools=self._calls.begun > 0)
        texts = {"reasoning_content": told.reasoning, "content": told.content}
        delta = {name: text for name, text in texts.items() if text}
        return {"index": self._index, "delta": delta, "finish_reason": reason} if delta or reason else None

    def _with_delta(self, choice: dict[str, Any]) -> dict[str, Any]:
        """Return the choice with a delta, whichever shape the provider gave it."""
        delta, message, text = choice.get("delta"), choice.get("message"), choice.get("text")
        if isinstance(message, dict):
            return {**without(choice, "message"), "delta": self.cumulative.delta_of(delta, message)}
        if isinstance(delta, dict):
            self.cumulative.by_delta = self.cumulative.by_delta or bool(delta.get("content"))
            return choice
        if isinstance(text, str):
            return {**without(choice, "text"), "delta": {"content": text}}
        return {**choice, "delta": {}}

    def _without_tags(self, delta: dict[str, Any], *, ends: bool) -> dict[str, Any]:
        """Return ``delta`` as the think tags have it; there are none where the provider tells reasoning itself."""
        tags, content = self.tags, delta.get("content")
        if tags is None or not isinstance(content, str | None):
            return delta
        if delta.get("reasoning_content"):
            told, last = tags.end(), Told("", content or "")
        else:
            told, last = tags.read(content or ""), tags.end() if ends else Told("", "")
        if tags.over:
            self.tags = None
        told = Told(told.reasoning + last.reasoning, told.content + last.content)
        return delta if told == Told("", content or "") else with_text(delta, told, drops_empty=True)

    def _reason(self, reason: object) -> str | None:
        """Return the contract's word; of two different ones in one choice the first stands."""
        if not reason:
            self._finished_empty = True
            return None
        if self._finish_reason is None:
            self._finish_reason = standard_finish_reason(reason, calls_tools=self._calls.begun > 0)
        return self._finish_reason
