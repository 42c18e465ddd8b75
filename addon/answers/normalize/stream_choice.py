"""One choice of a stream, chunk by chunk: it applies every rule, and keeps the state of each. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from addon.answers.normalize.content import with_plain_content, with_text
from addon.answers.normalize.cumulative import CumulativeMessage
from addon.answers.normalize.edits import with_member, without
from addon.answers.normalize.finish_reason import finish_reason_of_empty, standard_finish_reason
from addon.answers.normalize.list_index import LISTS, ListIndexes, numbers_only_detail
from addon.answers.normalize.reasoning import (
    has_plain_text,
    is_only_added,
    is_only_renamed,
    with_reasoning_content,
)
from addon.answers.normalize.role import Role
from addon.answers.normalize.shape import check_shown
from addon.answers.normalize.think_tags import SplitText, ThinkTags
from addon.answers.normalize.tool_calls import StreamedCalls, with_calls


class ChoiceResult(msgspec.Struct, frozen=True, gc=False):
    """A normalized choice of one chunk; see ``choices.ChunkResult``.

    ``lost_text``: the rule of think tags held or moved some of its text. ``is_numbered``: only its index changes.
    """

    choice: Any
    is_repeatable: bool
    is_renamed: bool = False
    role_dropped: bool = False
    lost_text: bool = False
    is_numbered: bool = False
    indexes: ListIndexes | None = None


class StreamChoice:
    """The choice with this ``index``. ``seed`` makes generated ids unique to this choice."""

    def __init__(self, index: int, seed: Sequence[object], *, think_tags: bool) -> None:
        self.tags = ThinkTags() if think_tags else None
        """None as soon as all that follows is answer."""
        self.role = Role()
        self.message = CumulativeMessage()
        self.has_reasoning = False
        """Reasoning text was sent already, so the same text in ``reasoning_details`` is not new."""
        self.has_details = False
        """The text of ``reasoning_details`` was new, and sent."""
        self._index = index
        self._calls = StreamedCalls(seed)
        self._lists = ListIndexes()
        self._finish_reason: str | None = None
        self._finished_empty = False

    def normalize(self, choice: dict[str, Any]) -> ChoiceResult:
        """Return the normalized choice of the next chunk. Raises NoChoiceError."""
        before = self._calls.begun, self.role.is_sent, self._reads_details
        had_tags = self.tags is not None
        ends = choice.get("finish_reason") is not None
        shaped = self._with_delta(choice)
        given = shaped["delta"]
        once = self.role.drop_repeated(given) if given.get("role") else given
        plain, reasoned = (once, once) if has_plain_text(once) else self._with_texts(once)
        self.has_reasoning = self.has_reasoning or any(map(plain.get, ("reasoning_content", "reasoning")))
        delta = untagged = self._without_tags(reasoned, ends=ends) if self.tags else reasoned
        if "tool_calls" in delta:
            delta = with_calls(delta, self._calls.deltas)
        numbered = delta if LISTS.isdisjoint(delta) else self._lists.number(delta)
        check_shown(numbered, is_whole=False)
        made = shaped if numbered is given else with_member(shaped, "delta", numbered)
        if ends:
            made = with_member(made, "finish_reason", self._reason(choice["finish_reason"]))
        same_else = shaped is choice and made.get("finish_reason") == choice.get("finish_reason")
        is_renamed = reasoned is not plain
        # The role, the key of the reasoning and an index are the only changes, so the bytes can be edited.
        is_indexed = numbered is not delta and numbers_only_detail(delta, numbered)
        is_edit = same_else and delta is reasoned and plain is once and (is_indexed or numbered is delta)
        is_added = is_renamed and is_only_added(once)
        is_edit = is_edit and (not is_renamed or is_added or is_only_renamed(once))
        self.has_details = self.has_details or is_added
        now = self._calls.begun, self.role.is_sent, self._reads_details
        is_steady = not (ends or had_tags or now != before)
        return ChoiceResult(
            made,
            is_repeatable=is_steady and is_edit,
            is_renamed=is_edit and is_renamed,
            role_dropped=is_edit and once is not given,
            lost_text=untagged is not reasoned,
            indexes=self._lists if is_edit and is_indexed else None,
        )

    @property
    def _reads_details(self) -> bool:
        """Whether templates may be there that send the text of details."""
        return self.has_details and not self.has_reasoning

    def finish(self) -> dict[str, Any] | None:
        """Return what is left to send when the stream has ended."""
        text = self.tags.end() if self.tags else SplitText("", "")
        self.tags = None
        reason = None
        if self._finished_empty and self._finish_reason is None:
            reason = self._finish_reason = finish_reason_of_empty(calls_tools=self._calls.begun > 0)
        texts = {"reasoning_content": text.reasoning, "content": text.content}
        delta = {name: value for name, value in texts.items() if value}
        return {"index": self._index, "delta": delta, "finish_reason": reason} if delta or reason else None

    def _with_delta(self, choice: dict[str, Any]) -> dict[str, Any]:
        """Return the choice with a delta, whichever shape the provider gave it."""
        delta, message, text = choice.get("delta"), choice.get("message"), choice.get("text")
        if isinstance(message, dict):
            return {**without(choice, "message"), "delta": self.message.delta_of(delta, message)}
        if isinstance(delta, dict):
            self.message.has_delta_text = self.message.has_delta_text or bool(delta.get("content"))
            return choice
        if isinstance(text, str):
            return {**without(choice, "text"), "delta": {"content": text}}
        return {**choice, "delta": {}}

    def _with_texts(self, delta: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return ``delta`` with its content as text, and the same with its reasoning in ``reasoning_content``."""
        plain = with_plain_content(delta, drops_empty=True)
        return plain, with_reasoning_content(plain, reads_details=not self.has_reasoning)

    def _without_tags(self, delta: dict[str, Any], *, ends: bool) -> dict[str, Any]:
        """Return ``delta`` without think tags. There are none when the provider itself separates reasoning."""
        tags, content = self.tags, delta.get("content")
        if tags is None or not isinstance(content, str | None):
            return delta
        if delta.get("reasoning_content"):
            first, last = tags.end(), SplitText("", content or "")
        else:
            first, last = tags.read(content or ""), tags.end() if ends else SplitText("", "")
        if tags.is_over:
            self.tags = None
        text = SplitText(first.reasoning + last.reasoning, first.content + last.content)
        return delta if text == SplitText("", content or "") else with_text(delta, text, drops_empty=True)

    def _reason(self, reason: object) -> str | None:
        """Return the contract's word. When one choice has two different ones, the first stays."""
        if not reason:
            self._finished_empty = True
            return None
        if self._finish_reason is None:
            self._finish_reason = standard_finish_reason(reason, calls_tools=self._calls.begun > 0)
        return self._finish_reason
