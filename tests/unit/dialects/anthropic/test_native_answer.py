"""Native answers of Anthropic's Messages API keep their bytes, and say to the ledger what a chat answer says."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.anthropic_answers import FUTURE, SEALED, SEARCH, TEXT, THINKING, USE, answer, events
from rig.corpus import needs_corpus
from rig.native_anthropic import read_recordings
from rig.replay import cut_at, random_pieces

from addon.answers.context import AnswerContext
from addon.answers.guarded_reader import GuardedReader
from addon.answers.stream_chunks import Event
from addon.dialects.anthropic import dialect, native
from addon.dialects.anthropic.native_answer import NativeChunks
from policies.family import Family

KEY = "sk-ant-0123456789abcdef"
CONTEXT = AnswerContext("the-slug", Family("claude"), secrets=(KEY,))
PLAIN = AnswerContext("the-slug", Family("claude"))
UPSTREAM = b'"model": "claude-upstream"'
SLUG = b'"model": "the-slug"'


def stream_of(found):
    return b"".join(b"event: %b\ndata: %b\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in found)


def read(reader, pieces):
    made = b"".join([reader.feed(piece) for piece in pieces])
    return made + reader.finish()


def facts(reader):
    return reader.usage, reader.finish_reason, reader.relayed_text_chars, reader.failure


def streamed(body, context=CONTEXT, pieces=None):
    reader = GuardedReader(native.stream(context), context.secrets)
    return read(reader, pieces or [body]), reader


def told(made):
    """Return the text of each block of a stream."""
    texts = {}
    for line in made.decode().splitlines():
        if line.startswith("data: ") and (event := json.loads(line[6:]))["type"] == "content_block_delta":
            delta = event["delta"]
            said = delta.get("text") or delta.get("thinking") or delta.get("partial_json") or ""
            texts[event["index"]] = texts.get(event["index"], "") + said
    return texts


@given(st.data())
def test_any_cut_of_a_stream_gives_the_same_bytes_but_for_the_model(data):
    blocks = [THINKING, TEXT, SEARCH, FUTURE, USE, SEALED]
    body = stream_of(events(*blocks, pieces=3, stop_reason="tool_use"))
    places = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    made, reader = streamed(body, pieces=cut_at(body, places))
    assert made == body.replace(UPSTREAM, SLUG, 1)
    assert reader.is_done and reader.failure is None
    chat = dialect.stream(CONTEXT)
    read(chat, [body])
    assert facts(reader) == facts(chat)


@needs_corpus
def test_every_recorded_answer_is_the_same_but_for_the_models_name():
    count = 0
    for record in read_recordings():
        if record["status"] != 200:
            continue
        body, stream = record["response_text"].encode(), record["stream"]
        pieces = random_pieces(body, record["id"], 20)
        kinds = (native, dialect)
        readers = [kind.stream(PLAIN) if stream else kind.whole(PLAIN, 1 << 26) for kind in kinds]
        made, _ = [read(reader, pieces) for reader in readers]
        assert facts(readers[0]) == facts(readers[1]), record["id"]
        if readers[0].failure is None:
            assert without_model(made) == without_model(body), record["id"]
            assert made.count(b'"the-slug"') == 1, record["id"]
            count += 1
    assert count > 180


def without_model(body):
    text = body.decode().replace("\r\n", "\n").rstrip("\n")
    documents = [line.removeprefix("data:").strip() for line in text.split("\n") if line.startswith("data:")]
    for document in documents or [text]:
        found = json.loads(document)
        if "model" in (message := found.get("message") or found):
            model = json.dumps(message["model"])
            assert text.count(f'"model":{model}') + text.count(f'"model": {model}') >= 1
            return text.replace(f'"model":{model}', '"model":""', 1).replace(
                f'"model": {model}', '"model": ""', 1
            )
    return text


def test_a_model_that_is_missing_is_added():
    message = {**answer(), "model": None}
    del message["model"]
    start = {"type": "message_start", "message": message}
    _, *rest = events(TEXT)
    made, _ = streamed(stream_of([start, *rest]))
    assert json.loads(made.split(b"\n")[1][6:])["message"]["model"] == "the-slug"
    whole = read(native.whole(CONTEXT, 1 << 20), [json.dumps(message).encode()])
    assert json.loads(whole) == {**message, "model": "the-slug"}


@pytest.mark.parametrize("block", [TEXT, THINKING, USE])
@given(at=st.integers(1, len(KEY) - 1), pieces=st.integers(1, 12))
def test_no_key_is_shown_however_it_is_cut(block, at, pieces):
    said = f"aa {KEY} bb {KEY[:at]}"
    name = {"text": "text", "thinking": "thinking", "tool_use": "input"}[block["type"]]
    body = stream_of(events({**block, name: {"a": said} if name == "input" else said}, TEXT, pieces=pieces))
    made, reader = streamed(body)
    (shown, _) = told(made).values()
    assert KEY not in shown and "***" in shown and reader.is_done


@pytest.mark.parametrize(("kind", "name"), [("signature_delta", "signature"), ("new_delta", "said")])
@given(at=st.integers(1, len(KEY) - 1))
def test_no_key_is_shown_that_is_cut_into_other_deltas_than_texts(kind, name, at):
    start, ping, begin, first, *rest = events(THINKING)
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": kind, name: piece}}
        for piece in ("ab", KEY[:at], KEY[at:], "cd")
    ]
    made, _ = streamed(stream_of([start, ping, begin, first, *deltas, *rest]))
    found = [json.loads(line[6:]) for line in made.decode().splitlines() if line.startswith("data: ")]
    shown = "".join(e["delta"].get(name, "") for e in found if e["type"] == "content_block_delta")
    assert shown.startswith("ab") and KEY not in shown and "***" in shown
    assert "cd" in shown


def test_harmless_text_like_the_beginning_of_a_key_is_shown():
    said = f"a {KEY[:6]}x {KEY[:7]}"
    body = stream_of(events({**TEXT, "text": said}, pieces=9))
    assert told(streamed(body)[0]) == {0: said}


def test_an_error_in_the_stream_is_a_failure():
    start, ping, *_ = events(TEXT)
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    made, reader = streamed(stream_of([start, ping, error]))
    assert reader.failure.message == "Overloaded" and b"overloaded" not in made
    made, reader = streamed(stream_of([ping, error]))
    assert (made, reader.failure.message) == (b"", "Overloaded")


@pytest.mark.parametrize(
    "found",
    [
        [],
        [{"type": "ping"}],
        [{"type": "message_stop"}],
        [{"type": "content_block_start", "index": 0, "content_block": TEXT}],
        [{"type": 7}],
        [{"no": "type"}],
    ],
)
def test_a_stream_without_a_message_is_no_answer(found):
    made, reader = streamed(
        stream_of([e for e in found if isinstance(e.get("type"), str)]) or b"data: {}\n\n"
    )
    assert (made, reader.is_done) == (b"", False) and reader.failure


def test_a_stream_that_is_cut_is_a_failure_unless_its_reason_was_read():
    *whole, _stop = events(TEXT)
    made, reader = streamed(stream_of(whole))
    assert reader.is_done and made.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    *cut, _ = whole
    made, reader = streamed(stream_of(cut))
    assert reader.failure and made and not reader.is_done


@pytest.mark.parametrize("count", [1, 4, None])
def test_the_last_event_has_its_blank_line_wherever_a_stream_ends(count):
    body = stream_of(list(events(TEXT))[:count])
    made, _ = streamed(body.rstrip(b"\n"))
    assert made == body.replace(UPSTREAM, SLUG, 1)


def test_events_without_a_type_line_get_one():
    body = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events(TEXT, pieces=3))
    made, _ = streamed(body)
    assert made == stream_of(events(TEXT, pieces=3)).replace(UPSTREAM, SLUG, 1)


def test_deltas_that_differ_in_text_and_padding_are_not_read():
    start, ping, begin, first, *others = events({**TEXT, "text": "a" * 30}, pieces=30)
    padded = stream_of(others[:29]).replace(b'"}}\n', b'"}      }\n')
    chunks = NativeChunks(CONTEXT)
    for event in (start, ping, begin, first):
        text = stream_of([event])
        payload = text.split(b"data: ")[1].strip()
        chunks.read(Event(text, payload, text.index(payload)), event)
    filled = chunks.fill(padded + stream_of(others[29:]), 0, 1 << 20)
    assert (filled.relayed, filled.chars, filled.end) == (padded, 29, len(padded))


def test_text_that_is_no_utf_8_is_a_failure():
    start, ping, begin, first, second, *_ = events({**TEXT, "text": "aabb"}, pieces=2)
    body = stream_of([start, ping, begin, first, second]).replace(b'"bb"', b'"b\xff"')
    made, reader = streamed(body, PLAIN)
    assert reader.failure and b"aa" in made and b"\xff" not in made


def test_results_of_searches_are_no_silence():
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": "x" * 400_000}
    _, reader = streamed(stream_of(events(*[found] * 5, TEXT)))
    assert reader.is_done and reader.relayed_text_chars == len(TEXT["text"])


def test_a_whole_answer_keeps_its_bytes():
    body = json.dumps(answer(THINKING, TEXT, USE, FUTURE, stop_reason="tool_use"), indent=1).encode()
    reader, chat = native.whole(CONTEXT, 1 << 20), dialect.whole(CONTEXT, 1 << 20)
    assert read(reader, [body]) == body.replace(UPSTREAM, SLUG)
    read(chat, [body])
    assert facts(reader) == facts(chat)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"content": 1}', b'{"type": "error", "error": {"message": "no"}}']
)
def test_a_whole_body_that_is_no_message_is_a_failure(body):
    reader = native.whole(CONTEXT, 1 << 20)
    assert read(reader, [body]) == b"" and reader.failure


@pytest.mark.parametrize("index", [None, [0], {}, "0"])
@pytest.mark.parametrize(
    "delta", [{"type": "citations_delta", "citation": {}}, {"type": "text_delta", "text": "a"}]
)
def test_an_index_that_is_none_fails_no_code_of_ours(index, delta, caplog):
    body = stream_of(
        [next(iter(events(TEXT))), {"type": "content_block_delta", "index": index, "delta": delta}]
    )
    for context in (CONTEXT, PLAIN):
        streamed(body, context)
    assert not caplog.records
