"""Every recorded answer of the OpenAI shape is normalized to the contract, and keeps its content."""

import json
import re
from collections.abc import Iterator
from typing import Any

from openai._models import construct_type
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk
from rig.corpus import needs_corpus, read_corpus
from rig.large import large, sized

from addon.answers.chunks import choices_edits
from addon.answers.normalize.choices import ChunkNormalizer, normalize_message_choices
from addon.text.json_edits import apply_edits
from policies.family import Family

pytestmark = [needs_corpus, large]

SAMPLE = sized(6, 1)
"""One recording of so many."""

STANDARD = {"stop", "length", "tool_calls", "content_filter", "function_call"}
SDK_CHUNKS = 150
"""Longer streams are left out: they have no other shapes, and the SDK copies the whole answer at every chunk."""
FAMILIES = (Family("plain"), Family("tagged", think_tags=True))
type Texts = dict[int, tuple[str, str]]
"""The reasoning and the answer of each choice."""


def answers(*, stream: bool) -> Iterator[tuple[str, int | None, list[Any]]]:
    """Yield the id of each recorded answer, how many choices were asked for, and its payloads that have choices."""
    for record in read_corpus()[::SAMPLE]:
        if record["status"] < 300 and record["stream"] is stream:
            texts = _events(record["response_text"]) if stream else [record["response_text"]]
            payloads = [json.loads(text) for text in texts if text.lstrip().startswith("{")]
            if found := [payload for payload in payloads if payload.get("choices") is not None]:
                yield record["id"], record["request"] and record["request"].get("n", 1), found


def _events(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [line[5:].removeprefix(" ") for line in lines if line.startswith("data:")]


def normalized(payloads: list[Any], n: int | None, family: Family = FAMILIES[0]) -> list[Any]:
    """Return the chunks of a stream as they are relayed, with those of its end."""
    normalizer, out = ChunkNormalizer(family, n), []
    for payload in payloads:
        before = json.dumps(payload)
        normal = normalizer.normalize(payload)
        assert json.dumps(payload) == before, "what was given is not changed"
        if normal.choices is not None:
            edits = choices_edits(before.encode(), payload, normal)
            assert json.loads(apply_edits(before.encode(), edits))["choices"] == normal.choices
        if not normal.is_empty:
            out.append(payload if normal.choices is None else {**payload, "choices": normal.choices})
    if last := normalizer.finish():
        out.append({"id": payloads[0].get("id"), "choices": last})
    return out


def whole(payload: Any, family: Family) -> list[Any]:
    made = normalize_message_choices(payload["choices"], family, payload.get("id"))
    return payload["choices"] if made is None else made


def faults(choice: Any, shown: Any, *, stream: bool) -> list[str]:
    """Return the faults of a choice, by the contract."""
    found = []
    if type(choice["index"]) is not int:
        found.append("index")
    if choice.get("finish_reason") not in STANDARD | {None}:
        found.append(f"finish_reason {choice['finish_reason']}")
    texts = ("content", "reasoning_content")
    found += [name for name in texts if not isinstance(shown.get(name), str | None)]
    if shown.get("reasoning") and not shown.get("reasoning_content"):
        found.append("reasoning")
    if shown.get("tool_calls") == []:
        found.append("no tool calls")
    for call in shown.get("tool_calls") or []:
        if stream and type(call.get("index")) is not int:
            found.append("index of a call")
        if call.get("type", "function" if stream else None) != "function":
            found.append("type of a call")
        if not isinstance(call["function"].get("arguments"), str):
            found.append("arguments of a call")
        if call.get("id") is None and not stream:
            found.append("id of a call")
    return found


def text_of(content: Any) -> str:
    """Read recorded content: a string, a list of text and thinking parts, or an object of JSON mode."""
    if isinstance(content, dict):
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    return "".join(part["text"] for part in parts if part["type"] == "text")


def reasoning_of(shown: Any) -> str:
    """Read recorded reasoning from every place that providers use."""
    content, details = shown.get("content"), shown.get("reasoning_details") or []
    thinking = (
        [part["thinking"] for part in content if part["type"] == "thinking"]
        if isinstance(content, list)
        else []
    )
    return (
        shown.get("reasoning_content")
        or shown.get("reasoning")
        or "".join(text["text"] for texts in thinking for text in texts)
        or "".join(detail.get("text") or "" for detail in details)
    )


def recorded(payloads: list[Any], member: str, n: int | None = None) -> Texts:
    """Return the texts of the choices, read from the recording."""
    texts: Texts = {}
    for payload in payloads:
        for choice in payload["choices"]:
            index = 0 if n == 1 else choice["index"]
            reasoning, content = texts.get(index, ("", ""))
            shown = choice[member]
            texts[index] = (reasoning + reasoning_of(shown), content + text_of(shown.get("content")))
    return texts


def relayed(payloads: list[Any], member: str) -> Texts:
    """Return the texts of the choices, as a client of the contract reads them."""
    texts: Texts = {}
    for payload in payloads:
        for choice in payload["choices"]:
            reasoning, content = texts.get(choice["index"], ("", ""))
            shown = choice[member]
            texts[choice["index"]] = (
                reasoning + (shown.get("reasoning_content") or ""),
                content + (shown.get("content") or ""),
            )
    return texts


def letters(texts: Texts) -> dict[int, str]:
    """Return all texts without white space and think tags."""
    return {
        index: re.sub(r"\s|</?(?:think|reasoning)>", "", "".join(parts)) for index, parts in texts.items()
    }


def test_every_stream_keeps_the_contract():
    found = {
        record_id: wrong
        for record_id, n, payloads in answers(stream=True)
        for family in FAMILIES
        for payload in normalized(payloads, n, family)
        for choice in payload["choices"]
        if (wrong := faults(choice, choice["delta"], stream=True))
    }
    assert found == {}


def test_every_whole_answer_keeps_the_contract():
    found = {
        record_id: wrong
        for record_id, _, [payload] in answers(stream=False)
        for family in FAMILIES
        for choice in whole(payload, family)
        if (wrong := faults(choice, choice["message"], stream=False))
    }
    assert found == {}


def test_no_text_is_lost_or_sent_twice():
    plain, tagged = FAMILIES
    for record_id, n, payloads in answers(stream=True):
        texts = recorded(payloads, "delta", n)
        assert relayed(normalized(payloads, n, plain), "delta") == texts, record_id
        assert letters(relayed(normalized(payloads, n, tagged), "delta")) == letters(texts), record_id
    for record_id, _, [payload] in answers(stream=False):
        texts = recorded([payload], "message")
        assert relayed([{"choices": whole(payload, plain)}], "message") == texts, record_id
        assert letters(relayed([{"choices": whole(payload, tagged)}], "message")) == letters(texts), record_id


def test_a_normalized_answer_stays():
    for record_id, n, payloads in answers(stream=True):
        for family in FAMILIES:
            again = ChunkNormalizer(family, n)
            for payload in normalized(payloads, n, family):
                assert again.normalize(payload).choices is None, record_id
    for record_id, _, [payload] in answers(stream=False):
        for family in FAMILIES:
            assert normalize_message_choices(whole(payload, family), family) is None, record_id


def test_ids_and_names_of_calls_are_sent_once_and_calls_are_numbered_from_0():
    seen = 0
    for record_id, n, payloads in answers(stream=True):
        sent: dict[tuple[int, int], list[Any]] = {}
        for payload in normalized(payloads, n):
            for choice in payload["choices"]:
                for call in choice["delta"].get("tool_calls") or []:
                    head = (call.get("id"), call["function"].get("name"))
                    sent.setdefault((choice["index"], call["index"]), []).append(head)
        for index in {index for index, _ in sent}:
            calls = [number for at, number in sent if at == index]
            assert calls == list(range(len(calls))), record_id
        for deltas in sent.values():
            ids, names = zip(*deltas, strict=True)
            assert ids[0] and not any(ids[1:]) and names[0] and not any(names[1:]), record_id
            seen += 1
    assert seen > 100 / SAMPLE


def test_the_official_sdk_joins_every_stream():
    for record_id, n, payloads in answers(stream=True):
        if len(payloads) > SDK_CHUNKS:
            continue
        state, made = ChatCompletionStreamState(), normalized(payloads, n)
        for payload in made:
            # The SDK stops at an answer that was cut short, because its JSON has no end. That is not a fault.
            choices = [{**choice, "finish_reason": None} for choice in payload["choices"]]
            chunk = {"id": "", "model": "m", **payload, "choices": choices, "object": "chat.completion.chunk"}
            state.handle_chunk(construct_type(type_=ChatCompletionChunk, value=chunk))
        texts = {
            choice.index: (
                getattr(choice.message, "reasoning_content", None) or "",
                choice.message.content or "",
            )
            for choice in state.current_completion_snapshot.choices
        }
        assert texts == relayed(made, "delta"), record_id
