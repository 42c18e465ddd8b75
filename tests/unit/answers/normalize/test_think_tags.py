"""Text between a leading <think> and </think> is reasoning, in whole answers and in every cut of a stream."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.answers.normalize.choices import ChunkNormalizer, ChunkResult, normalize_message_choices
from addon.answers.normalize.think_tags import ThinkTags, split_text
from policies.family import Family

TAGGED = Family("tagged", think_tags=True)
PLAIN = Family("plain")

# case: text, reasoning, answer
TEXTS = {
    "a block and an answer": ("<think>hm</think>yes", "hm", "yes"),
    "white space around the block is dropped": ("\n <think>\nhm\n</think>\n\nyes \n", "\nhm\n", "yes \n"),
    "an empty block": ("<think>\n\n</think>\n\nyes", "\n\n", "yes"),
    "no answer": ("<think>hm</think>\n", "hm", ""),
    "cut short while it thinks": ("<think>Okay, the us", "Okay, the us", ""),
    "cut short inside the closing tag": ("<think>hm</thi", "hm</thi", ""),
    "cut short inside the opening tag": ("<thi", "", "<thi"),
    "only the opening tag": ("<think>", "", ""),
    "no tags": (" yes", "", " yes"),
    "nothing": ("", "", ""),
    "white space": (" \n", "", " \n"),
    "a tag behind text stays": ("say <think>hm</think>", "", "say <think>hm</think>"),
    "a closing tag alone stays": ("Hello!</think>\n\n", "", "Hello!</think>\n\n"),
    "the answer may speak of tags": ("<think>a</think><think>b</think>", "a", "<think>b</think>"),
    "another tag": ("<thinking>hm</thinking>yes", "", "<thinking>hm</thinking>yes"),
    "an almost closing tag": ("<think>a</thin</think>b", "a</thin", "b"),
    "a closing tag begins inside another": ("<think>a<</think>b", "a<", "b"),
    "the tags of Amazon Bedrock": ("<reasoning>hm</reasoning>yes", "hm", "yes"),
    "the closing tag of the other kind": ("<reasoning>a</think>b</reasoning>c", "a</think>b", "c"),
    "cut short inside the other opening tag": ("<reason", "", "<reason"),
}
TAGGED_TEXT = st.lists(
    st.sampled_from(
        [
            "<think>",
            "</think>",
            "<reasoning>",
            "</reasoning>",
            "<",
            "</",
            "think>",
            "<think",
            " ",
            "\n",
            "a",
            "é",
        ]
    ),
    max_size=8,
).map("".join)


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(ends)]


def read(pieces: list[str]) -> tuple[str, str]:
    tags = ThinkTags()
    texts = [*map(tags.read, pieces), tags.end()]
    return "".join(one.reasoning for one in texts), "".join(one.content for one in texts)


def chunk(delta: dict, *, index: int = 0, finish: str | None = None) -> dict:
    return {"id": "c", "choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


def streamed(chunks: list[dict], family: Family = TAGGED) -> dict[int, tuple[str, str]]:
    """Return the reasoning and the answer of each choice, as a client joins them."""
    normalizer, texts = ChunkNormalizer(family), {}
    shown = []
    for one in chunks:
        normal = normalizer.normalize(one)
        if not normal.is_empty:
            shown += one["choices"] if normal.choices is None else normal.choices
    for choice in [*shown, *normalizer.finish()]:
        reasoning, content = texts.get(choice["index"], ("", ""))
        delta = choice["delta"]
        texts[choice["index"]] = (
            reasoning + (delta.get("reasoning_content") or ""),
            content + (delta.get("content") or ""),
        )
    return texts


@pytest.mark.parametrize(("text", "reasoning", "content"), TEXTS.values(), ids=TEXTS)
def test_a_text_is_split_into_reasoning_and_answer(text: str, reasoning: str, content: str):
    assert split_text(text) == (reasoning, content)


@pytest.mark.parametrize(("text", "reasoning", "content"), TEXTS.values(), ids=TEXTS)
def test_a_stream_of_single_characters_gives_the_same_text(text: str, reasoning: str, content: str):
    assert read(list(text)) == (reasoning, content)


@given(TAGGED_TEXT, st.lists(st.integers(0, 60), max_size=6))
def test_any_cut_of_a_stream_gives_the_same_text(text: str, places: list[int]):
    assert read(cut(text, places)) == split_text(text)


@given(TAGGED_TEXT, st.lists(st.integers(0, 60), max_size=6), st.booleans())
def test_a_stream_and_a_whole_answer_give_the_same_text(text: str, places: list[int], ends: bool):
    pieces = cut(text, places) or [""]
    chunks = [chunk({"content": piece}) for piece in pieces[:-1]]
    chunks.append(chunk({"content": pieces[-1]}, finish="stop" if ends else None))
    whole = [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]
    message = (normalize_message_choices(whole, TAGGED) or whole)[0]["message"]
    texts = streamed(chunks).get(0, ("", ""))
    assert texts == (message.get("reasoning_content", ""), message["content"])


@given(TAGGED_TEXT, st.lists(st.integers(0, 60), max_size=6))
def test_no_text_longer_than_a_tag_is_held(text: str, places: list[int]):
    tags, read_chars, shown_chars = ThinkTags(), 0, 0
    for piece in cut(text.lstrip(), places):
        texts = tags.read(piece)
        read_chars, shown_chars = read_chars + len(piece), shown_chars + len(texts.reasoning + texts.content)
    assert read_chars - shown_chars <= 2 * len("<reasoning></reasoning>") + text.count(" ") + text.count("\n")


def test_each_choice_has_its_own_tags():
    chunks = [
        chunk({"content": "<think>a"}),
        chunk({"content": "plain <th"}, index=1),
        chunk({"content": "</think>b"}),
        chunk({"content": "ink>"}, index=1),
    ]
    assert streamed(chunks) == {0: ("a", "b"), 1: ("", "plain <think>")}


def test_a_chunk_is_not_relayed_when_all_its_text_is_held():
    normalizer = ChunkNormalizer(TAGGED)
    assert normalizer.normalize(chunk({"content": "<th"})).is_empty
    assert not normalizer.normalize(chunk({"role": "assistant", "content": "ink"})).is_empty
    assert normalizer.normalize(chunk({"content": ">"})).is_empty


def test_a_chunk_with_other_members_is_relayed():
    normalizer = ChunkNormalizer(TAGGED)
    assert not normalizer.normalize(chunk({"content": "<th"}) | {"usage": {"total_tokens": 3}}).is_empty
    assert not normalizer.normalize(chunk({"content": "in"}, finish="length")).is_empty


def test_the_last_chunk_of_a_choice_has_the_held_text():
    normal = ChunkNormalizer(TAGGED).normalize(chunk({"content": "<th"}, finish="length"))
    assert normal == ChunkResult(None, False), "nothing had to be held: it is the end"
    normalizer = ChunkNormalizer(TAGGED)
    normalizer.normalize(chunk({"content": "<think>a</th"}))
    choices = normalizer.normalize(chunk({}, finish="length")).choices
    assert choices == [{"index": 0, "delta": {"reasoning_content": "</th"}, "finish_reason": "length"}]


def test_chunks_are_repeatable_once_the_answer_has_begun():
    normalizer = ChunkNormalizer(TAGGED)
    seen = [normalizer.normalize(chunk({"content": text})) for text in ("<think>a", "b", "</think>c", "d")]
    assert [normal.is_repeatable for normal in seen] == [False, False, False, True]
    assert seen[-1].choices is None


def test_tags_are_text_when_the_provider_separates_reasoning():
    chunks = [
        chunk({"reasoning_content": "hm"}),
        chunk({"content": "<think>"}),
        chunk({"content": "a</think>"}),
    ]
    assert streamed(chunks) == {0: ("hm", "<think>a</think>")}
    message = {"role": "assistant", "content": "<think>a", "reasoning_content": "hm"}
    whole = [{"index": 0, "message": message, "finish_reason": "stop"}]
    assert normalize_message_choices(whole, TAGGED) is None


def test_a_family_without_think_tags_keeps_its_text():
    chunks = [chunk({"content": "<think>"}), chunk({"content": "a</think>b"})]
    assert streamed(chunks, PLAIN) == {0: ("", "<think>a</think>b")}
    message = {"role": "assistant", "content": "<think>a</think>b"}
    whole = [{"index": 0, "message": message, "finish_reason": "stop"}]
    assert normalize_message_choices(whole, PLAIN) is None
