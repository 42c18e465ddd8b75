"""Gemini's answers, whole and streamed, as chat completions: each candidate is a choice. Pure.

What has no place in the chat shape stands under ``extra_content.google``, as Gemini wrote it. Source: Gemini API
reference, "GenerateContentResponse", "Candidate"; recorded traffic.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from addon.answers.bounds import check_choices
from addon.dialects.gemini.parts import objects, read_parts
from addon.dialects.gemini.usage import running_usage, usage_block
from addon.dialects.translation import Identity, choice, chunk, completion, usage_chunk

_PROMPT_BLOCKED: Final = "the prompt was blocked"
# Source: google-genai, types.FinishReason. With any other reason nothing was withheld: the answer just ended.
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
# These say no more than what they are called in the chat shape.
_SAID: Final = frozenset({"STOP", "MAX_TOKENS", _PROMPT_BLOCKED})
_READ_OF_CANDIDATE: Final = frozenset({"content", "finishReason", "index", "logprobsResult"})
# ``modelVersion`` is the vendor's own name for the model, which clients never see.
_READ_OF_ANSWER: Final = frozenset(
    {"candidates", "usageMetadata", "modelVersion", "responseId", "createTime"}
)


def to_completion(
    answer: dict[str, Any], model_slug: str, created_s: int, answer_id: str = ""
) -> dict[str, Any]:
    """Return the chat completion that ``answer`` is; ``answer_id`` is for one that bears no id of its own.

    Raises ValueError for what is no answer of Gemini's.
    """
    identity = _identity(answer, model_slug, created_s, answer_id)
    choices = [_choice(candidate, identity) for candidate in _candidates(answer)]
    if not choices:
        raise ValueError("an answer without candidates")
    metadata = answer.get("usageMetadata")
    made = completion(identity, choices, usage_block(metadata) if isinstance(metadata, Mapping) else None)
    return made | _rest(answer, _READ_OF_ANSWER)


@dataclass(slots=True)
class _Told:
    """What was told of one choice so far; ``finish_reason`` is Gemini's own."""

    finish_reason: str | None = None
    calls: int = 0
    thoughts: bool = False
    signature: object = None
    numbered: Counter[str] = field(default_factory=Counter)

    def keep_signature(self, delta: dict[str, Any]) -> None:
        """Keep the text's signature back: the last one holds, and clients would join them."""
        google = delta.get("extra_content", {}).get("google", {})
        if "thought_signature" in google:
            self.signature = google.pop("thought_signature")
            if not google:
                del delta["extra_content"]

    def last(self) -> dict[str, Any]:
        """Return the last delta."""
        return {"extra_content": {"google": {"thought_signature": self.signature}}} if self.signature else {}

    def number(self, name: str, holder: dict[str, Any]) -> None:
        """Give each element of a list the index that clients need to put together the lists of deltas."""
        if name in holder:
            first = self.numbered[name]
            holder[name] = [{"index": number, **part} for number, part in enumerate(holder[name], first)]
            self.numbered[name] += len(holder[name])


class Stream:
    """One streamed answer; see ``translation.StreamTranslator``.

    No event ends Gemini's streams, and older models give a finish reason with every event. So the finish of a choice
    is told when the stream is over, and the usage after it.
    """

    ended = False
    """No event says that nothing follows."""

    def __init__(self, model_slug: str, created_s: int, answer_id: str = "") -> None:
        self.finished = False
        self.usage: dict[str, Any] | None = None
        self._model_slug = model_slug
        self._created_s = created_s
        self._answer_id = answer_id
        self._identity: Identity | None = None
        self._told: dict[int, _Told] = {}
        self._ends = 0
        self._metadata: Mapping[str, Any] = {}

    def read(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the chunks of one GenerateContentResponse, at most one a candidate."""
        if self._identity is None:
            self._identity = _identity(event, self._model_slug, self._created_s, self._answer_id)
        chunks = []
        for candidate in _candidates(event):
            chunks += self._chunk(candidate, self._identity)
        if chunks and (rest := _rest(event, _READ_OF_ANSWER)):
            chunks[0] |= rest
        self.finished = bool(self._told) and self._ends == len(self._told)
        if isinstance(metadata := event.get("usageMetadata"), dict):
            self._metadata = metadata
        self.usage = self._usage()
        return chunks

    def last(self) -> list[dict[str, Any]]:
        """Return the finish of every choice, and the usage."""
        if self._identity is None:
            return []
        chunks = [
            chunk(self._identity, told.last(), _finish_reason(told.finish_reason, told.calls > 0), index)
            for index, told in sorted(self._told.items())
        ]
        return [*chunks, usage_chunk(self._identity, self.usage)] if self.usage else chunks

    def _usage(self) -> dict[str, Any] | None:
        if self.finished:
            return usage_block(self._metadata)
        shows_thoughts = any(told.thoughts for told in self._told.values())
        return running_usage(self._metadata, shows_thoughts=shows_thoughts)

    def _chunk(self, candidate: dict[str, Any], identity: Identity) -> list[dict[str, Any]]:
        index = _index(candidate)
        delta: dict[str, Any] = {}
        if (told := self._told.get(index)) is None:
            check_choices(len(self._told))
            told = self._told[index] = _Told()
            delta["role"] = "assistant"
        delta |= _message(candidate, identity, index, told.calls)
        told.calls += len(delta.get("tool_calls", ()))
        told.thoughts |= "reasoning_content" in delta
        told.keep_signature(delta)
        told.number("images", delta)
        if "extra_content" in delta:
            told.number("parts", delta["extra_content"]["google"])
        if (reason := _native_finish_reason(candidate)) is not None:
            self._ends += told.finish_reason is None
            told.finish_reason = reason
        beside = _beside(candidate)
        if not delta and not beside:
            return []
        made = chunk(identity, delta, None, index)
        made["choices"][0] |= beside
        return [made]


def _identity(answer: Mapping[str, Any], model_slug: str, created_s: int, answer_id: str) -> Identity:
    given = answer.get("responseId")
    return Identity(given if given and isinstance(given, str) else answer_id, created_s, model_slug)


def _candidates(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the candidates; a prompt that was blocked is answered by one that says nothing."""
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
    return choice(message, finish_reason, index) | _beside(candidate)


def _index(candidate: Mapping[str, Any]) -> int:
    index = candidate.get("index", 0)
    if type(index) is not int:
        raise ValueError("an index that is no integer")
    return index


def _message(candidate: Mapping[str, Any], identity: Identity, index: int, calls: int) -> dict[str, Any]:
    content = candidate.get("content")
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ValueError("content that is no object")
    parts = content.get("parts")
    return read_parts(parts, f"call_{identity.id}_{index}_", calls) if parts else {}


def _native_finish_reason(candidate: Mapping[str, Any]) -> str | None:
    reason = candidate.get("finishReason")
    return None if reason is None else str(reason)


def _finish_reason(native: str | None, has_calls: bool) -> str | None:
    """Gemini also says STOP where it called tools, and other words where a call was not to its liking."""
    if native is None:
        return None
    reason = _FINISH_REASONS.get(native, "stop")
    return "tool_calls" if has_calls and reason == "stop" else reason


def _beside(candidate: dict[str, Any]) -> dict[str, Any]:
    """Return what a choice has besides its message: log probabilities, and what only Gemini has a name for."""
    said = _rest(candidate, _READ_OF_CANDIDATE)
    if (native := _native_finish_reason(candidate)) is not None and native not in _SAID:
        said = {"extra_content": {"google": {"finishReason": native} | _google(said)}}
    if isinstance(result := candidate.get("logprobsResult"), Mapping):
        said["logprobs"] = {"content": _logprobs(result), "refusal": None}
    return said


def _rest(thing: dict[str, Any], read: frozenset[str]) -> dict[str, Any]:
    rest = {name: value for name, value in thing.items() if name not in read}
    return {"extra_content": {"google": rest}} if rest else {}


def _google(said: Mapping[str, Any]) -> dict[str, Any]:
    rest: dict[str, Any] = said["extra_content"]["google"] if said else {}
    return rest


def _logprobs(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    chosen = objects(result.get("chosenCandidates", []))
    alternatives = objects(result.get("topCandidates", []))
    listed = [[_logprob(one) for one in objects(top.get("candidates", []))] for top in alternatives]
    listed += [[]] * (len(chosen) - len(listed))
    return [_logprob(one) | {"top_logprobs": top} for one, top in zip(chosen, listed, strict=False)]


def _logprob(token: Mapping[str, Any]) -> dict[str, Any]:
    return {"token": token.get("token"), "logprob": token.get("logProbability"), "bytes": None}
