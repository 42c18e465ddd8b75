"""Gemini's answers, whole and streamed, become chat answers: each candidate is a choice. Pure.

Members without a place in the chat shape are in ``extra_content.google``, as Gemini wrote them. Source: Gemini API
reference, "GenerateContentResponse", "Candidate"; recorded traffic.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from addon.answers.bounds import check_choices
from addon.dialects.chat_shape import Identity, choice, chunk, completion, usage_chunk
from addon.dialects.gemini.parts import objects, read_parts
from addon.dialects.gemini.usage import count_searches, read_priced, running_usage, usage_block
from policies.usage import Usage

_PROMPT_BLOCKED: Final = "the prompt was blocked"
# Source: google-genai, types.FinishReason. Any other reason means "stop": the answer ended and nothing was withheld.
_FINISH_REASONS: Final = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        (
            *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
            *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", _PROMPT_BLOCKED),
        ),
        "content_filter",
    ),
}
# The chat shape's words for these say as much, so they are not repeated in extra_content.
_TRANSLATED: Final = frozenset({"STOP", "MAX_TOKENS", _PROMPT_BLOCKED})
_READ_CANDIDATE_MEMBERS: Final = frozenset({"content", "finishReason", "index", "logprobsResult"})
# ``modelVersion`` is the vendor's own name of the model, which clients never see.
_READ_ANSWER_MEMBERS: Final = frozenset(
    {"candidates", "usageMetadata", "modelVersion", "responseId", "createTime"}
)


def to_completion(
    answer: dict[str, Any], model_slug: str, created_s: int, answer_id: str = ""
) -> dict[str, Any]:
    """Return ``answer`` as a chat completion. ``answer_id`` is for an answer without an id of its own.

    Raises ValueError for anything but an answer of Gemini's.
    """
    identity = _identity(answer, model_slug, created_s, answer_id)
    choices = [_choice(candidate, identity) for candidate in _candidates(answer)]
    if not choices:
        raise ValueError("the answer has no candidates")
    metadata = answer.get("usageMetadata")
    made = completion(identity, choices, usage_block(metadata) if isinstance(metadata, Mapping) else None)
    return made | _rest(answer, _READ_ANSWER_MEMBERS)


@dataclass(slots=True)
class _ChoiceState:
    """The state of one streamed choice. ``finish_reason`` is Gemini's own word."""

    finish_reason: str | None = None
    calls: int = 0
    has_thoughts: bool = False
    signature: object = None
    numbered: Counter[str] = field(default_factory=Counter)

    def keep_signature(self, delta: dict[str, Any]) -> int:
        """Take the text's signature out of ``delta``: the last one counts, and clients would join several.

        Return the length of a new one.
        """
        google = delta.get("extra_content", {}).get("google", {})
        if "thought_signature" not in google:
            return 0
        known, self.signature = self.signature, google.pop("thought_signature")
        if not google:
            del delta["extra_content"]
        return len(self.signature) if isinstance(self.signature, str) and self.signature != known else 0

    def last_delta(self) -> dict[str, Any]:
        """Return the last delta: the signature, if there is one."""
        return {"extra_content": {"google": {"thought_signature": self.signature}}} if self.signature else {}

    def number(self, name: str, holder: dict[str, Any]) -> None:
        """Give each element of a list an index: clients need it to join the lists of several deltas."""
        if name in holder:
            first = self.numbered[name]
            holder[name] = [{"index": number, **part} for number, part in enumerate(holder[name], first)]
            self.numbered[name] += len(holder[name])


class GeminiStream:
    """One streamed answer; see ``chat_shape.StreamTranslator``.

    No event ends Gemini's streams, and older models give a finish reason with every event. So the finish reason of a
    choice is sent when the stream is over, and the usage after it.
    """

    is_closed = False
    """No event marks the end of the stream."""

    def __init__(self, model_slug: str, created_s: int, answer_id: str = "") -> None:
        self.has_finished = False
        self.kept_chars = 0
        self._model_slug = model_slug
        self._created_s = created_s
        self._answer_id = answer_id
        self._identity: Identity | None = None
        self._states: dict[int, _ChoiceState] = {}
        self._ends = 0
        self._metadata: Mapping[str, Any] = {}
        self._searches: int | None = None
        self._shows_thoughts: bool | None = None  # None before the first event

    @property
    def usage(self) -> dict[str, Any] | None:
        """The usage block as far as it is known. It is made when it is asked for, not with every event."""
        if self._shows_thoughts is None:
            return None
        if self.has_finished:
            return usage_block(self._metadata)
        return running_usage(self._metadata, shows_thoughts=self._shows_thoughts)

    @property
    def priced(self) -> Usage:
        """The counts that have a price, and no place in the chat shape."""
        return replace(read_priced({"usageMetadata": self._metadata}), searches=self._searches)

    def read(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the chunks of one GenerateContentResponse, at most one for each candidate."""
        if self._identity is None:
            self._identity = _identity(event, self._model_slug, self._created_s, self._answer_id)
        chunks = []
        for candidate in _candidates(event):
            chunks += self._chunk(candidate, self._identity)
        if chunks and (rest := _rest(event, _READ_ANSWER_MEMBERS)):
            chunks[0] |= rest
        self.has_finished = bool(self._states) and self._ends == len(self._states)
        if isinstance(metadata := event.get("usageMetadata"), dict):
            self._metadata = metadata
        if (searches := count_searches(event.get("candidates"))) is not None:
            self._searches = max(searches, self._searches or 0)
        self._shows_thoughts = any([state.has_thoughts for state in self._states.values()])  # noqa: C419
        return chunks

    def ignores(self, event: dict[str, Any]) -> bool:
        """Return whether it has nothing that is read."""
        return event.keys().isdisjoint(("candidates", "promptFeedback", "usageMetadata"))

    def finish(self) -> list[dict[str, Any]]:
        """Return the finish reason of every choice, and the usage."""
        if self._identity is None:
            return []
        chunks = [
            chunk(
                self._identity,
                state.last_delta(),
                _finish_reason(state.finish_reason, state.calls > 0),
                index,
            )
            for index, state in sorted(self._states.items())
        ]
        usage = self.usage
        return [*chunks, usage_chunk(self._identity, usage)] if usage else chunks

    def _chunk(self, candidate: dict[str, Any], identity: Identity) -> list[dict[str, Any]]:
        index = _index(candidate)
        delta: dict[str, Any] = {}
        if (state := self._states.get(index)) is None:
            check_choices(len(self._states))
            state = self._states[index] = _ChoiceState()
            delta["role"] = "assistant"
        delta |= _message(candidate, identity, index, state.calls)
        state.calls += len(delta.get("tool_calls", ()))
        state.has_thoughts |= "reasoning_content" in delta
        self.kept_chars += state.keep_signature(delta)
        state.number("images", delta)
        if "extra_content" in delta:
            state.number("parts", delta["extra_content"]["google"])
        if (reason := _native_finish_reason(candidate)) is not None:
            self._ends += state.finish_reason is None
            state.finish_reason = reason
        extras = _extras(candidate)
        if not delta and not extras:
            return []
        made = chunk(identity, delta, None, index)
        made["choices"][0] |= extras
        return [made]


def _identity(answer: Mapping[str, Any], model_slug: str, created_s: int, answer_id: str) -> Identity:
    given = answer.get("responseId")
    return Identity(given if given and isinstance(given, str) else answer_id, created_s, model_slug)


def _candidates(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the candidates. A blocked prompt gets one that is empty."""
    if candidates := answer.get("candidates"):
        return objects(candidates)
    feedback = answer.get("promptFeedback")
    if isinstance(feedback, Mapping) and feedback.get("blockReason"):
        return [{"finishReason": _PROMPT_BLOCKED}]
    return []


def _choice(candidate: dict[str, Any], identity: Identity) -> dict[str, Any]:
    index = _index(candidate)
    message = {"role": "assistant", "content": None} | _message(candidate, identity, index, 0)
    if calls := message.get("tool_calls", []):
        message["tool_calls"] = [{name: call[name] for name in call if name != "index"} for call in calls]
    finish_reason = _finish_reason(_native_finish_reason(candidate), bool(calls))
    return choice(message, finish_reason, index) | _extras(candidate)


def _index(candidate: Mapping[str, Any]) -> int:
    index = candidate.get("index", 0)
    if type(index) is not int:
        raise ValueError("an index is not an integer")
    return index


def _message(candidate: Mapping[str, Any], identity: Identity, index: int, calls: int) -> dict[str, Any]:
    content = candidate.get("content")
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ValueError("content is not an object")
    parts = content.get("parts")
    return read_parts(parts, f"call_{identity.id}_{index}_", calls) if parts else {}


def _native_finish_reason(candidate: Mapping[str, Any]) -> str | None:
    reason = candidate.get("finishReason")
    return None if reason is None else str(reason)


def _finish_reason(native: str | None, has_calls: bool) -> str:
    """Return the chat shape's word. Gemini also says STOP after tool calls, and has words of its own for bad calls.

    A whole answer without a reason has ended, too.
    """
    reason = _FINISH_REASONS.get(native or "STOP", "stop")
    return "tool_calls" if has_calls and reason == "stop" else reason


def _extras(candidate: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a choice except its message: log probabilities, and members that only Gemini has."""
    extras = _rest(candidate, _READ_CANDIDATE_MEMBERS)
    if (native := _native_finish_reason(candidate)) is not None and native not in _TRANSLATED:
        extras = {"extra_content": {"google": {"finishReason": native} | _google(extras)}}
    if isinstance(result := candidate.get("logprobsResult"), Mapping):
        extras["logprobs"] = {"content": _logprobs(result), "refusal": None}
    return extras


def _rest(thing: dict[str, Any], read: frozenset[str]) -> dict[str, Any]:
    rest = {name: value for name, value in thing.items() if name not in read}
    return {"extra_content": {"google": rest}} if rest else {}


def _google(extras: Mapping[str, Any]) -> dict[str, Any]:
    rest: dict[str, Any] = extras["extra_content"]["google"] if extras else {}
    return rest


def _logprobs(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    chosen = objects(result.get("chosenCandidates", []))
    alternatives = objects(result.get("topCandidates", []))
    listed = [[_logprob(one) for one in objects(top.get("candidates", []))] for top in alternatives]
    listed += [[]] * (len(chosen) - len(listed))
    return [_logprob(one) | {"top_logprobs": top} for one, top in zip(chosen, listed, strict=False)]


def _logprob(token: Mapping[str, Any]) -> dict[str, Any]:
    chance = token.get("logProbability")
    # Protocol Buffers write infinity as a string.
    return {
        "token": token.get("token"),
        "logprob": -9999.0 if chance == "-Infinity" else chance,
        "bytes": None,
    }
