"""Every recorded answer of the Responses API on the native way: equal but for the model's name."""

import json
import re
from typing import Any

import pytest
from rig.corpus import FOLDER, needs_corpus, read_recorded_file, recorded_files
from rig.large import large, sized
from rig.recorded_chat_answers import relay

from addon.answers.context import AnswerContext
from addon.dialects.responses import native
from policies.family import Family
from policies.plausible_usage import NOT_A_COUNT

SAMPLE = sized(4, 1)
SLUG = "house/slug"
CONTEXT = AnswerContext(SLUG, Family("plain"), secrets=("sk-no-such-key-0123456789",))
each_file = pytest.mark.parametrize(
    "name",
    recorded_files("openai_responses")
    if FOLDER
    else [pytest.param("", marks=needs_corpus, id="no-recordings")],
)


def is_no_answer(record: dict[str, Any]) -> bool:
    """Return whether it is no answer: an error, or one that runs in the background, which no one asks for here."""
    if record["status"] // 100 != 2:
        return True
    return not record["stream"] and json.loads(record["response_text"])["status"] in ("queued", "in_progress")


def expected(record: dict[str, Any]) -> str:
    """Return the recorded answer with our name of the model, up to the end of the response."""
    text = record["response_text"].replace("\r\n", "\n")
    if not record["stream"]:
        body = json.loads(text)
        named = re.compile(r'("model"\s*:\s*)' + re.escape(json.dumps(body["model"])))
        return named.sub(rf'\g<1>"{SLUG}"', text)
    events = [event for event in text.split("\n\n") if event.strip("\n")]
    ends = [
        at
        for at, event in enumerate(events)
        if re.search(r'"type": ?"response\.(completed|incomplete)"', event)
    ]
    return "".join(f"{_named(event)}\n\n" for event in events[: ends[0] + 1])


def _named(event: str) -> str:
    data = re.search(r"^data: ?(.*)$", event, re.MULTILINE)
    value = json.loads(data[1]) if data else {}
    if not isinstance(value.get("response"), dict):
        return event.strip("\n")
    model = json.dumps(value["response"]["model"], ensure_ascii=False)
    return re.sub(r'("model": ?)' + re.escape(model), rf'\g<1>"{SLUG}"', event.strip("\n"))


@large
@each_file
@pytest.mark.parametrize("stream", [False, True])
def test_a_recorded_answer_keeps_its_bytes_but_for_the_model(name: str, stream: bool):
    for record in read_recorded_file(name, SAMPLE):
        if record["stream"] is not stream or is_no_answer(record):
            continue
        try:
            check(record)
        except Exception as failure:
            failure.add_note(f"recording {record['id']}")
            raise


def check(record: dict[str, Any]) -> None:
    streams = record["stream"]
    reader = native.stream(CONTEXT) if streams else native.whole(CONTEXT, 1 << 26)
    got = relay(reader, record["response_text"]).decode()
    if "error_mid_stream" in record["tags"]:
        assert (reader.failure is not None, got) == (True, ""), "another provider may answer"
        return
    assert reader.failure is None
    assert got == expected(record)
    assert reader.is_done
    last = json.loads(got if not streams else re.findall(r"^data: ?(.*)$", got, re.MULTILINE)[-1])
    response = last["response"] if streams else last
    if usage := response.get("usage"):
        assert reader.usage is not None
        counts = (reader.usage.prompt_tokens, reader.usage.completion_tokens, reader.usage.total_tokens)
        reported = (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"])
        assert counts == tuple(max(count, NOT_A_COUNT) for count in reported)
        details = usage.get("output_tokens_details") or {}
        assert reader.usage.reasoning_tokens == details.get("reasoning_tokens")
    incomplete = response.get("incomplete_details") or {}
    assert reader.finish_reason == incomplete.get("reason", response["status"])
    says = [
        item for item in response["output"] if item["type"] != "reasoning" or item.get("encrypted_content")
    ]
    assert reader.relayed_text_chars > 0 or not says
