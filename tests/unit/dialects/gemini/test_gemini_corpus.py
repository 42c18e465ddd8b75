"""Every recorded exchange of Gemini's native API: requests survive the chat shape, answers mean what the SDK reads."""

import json
import re
from typing import Any

import pytest
from rig.corpus import needs_corpus, read_corpus
from rig.native_gemini import chat_request_of, check, meaning, rest_names
from rig.readers import Answer, chat, difference, gemini_sdk
from rig.readers.events import event_texts

from addon.apis.chat.request import parse_chat_request
from addon.dialects.gemini.answer import GeminiStream, to_completion
from addon.dialects.gemini.request import to_request
from policies.family import Family
from policies.refusal import Refusal

pytestmark = needs_corpus

OTHERWISE = {
    "google-gem-a8cb43c8250ad6c4": "fields that Gemini itself refused as unknown",
    "google-gem-bc88ae3cbac97edb": "fields that Gemini itself refused as unknown",
    "vertex-gem-2a9902f45f9786e9": "a signature on a thought, where no recorded answer has one",
}
"""Requests with a part that the chat shape does not have."""
REFUSED = {
    "google-gem-b44b2c01b7744a34": "messages.0.content.1.image_url.url",  # gs://
    "vertex-gem-22dc91a440f50568": "messages.0.role",  # refused by Gemini as well
}
"""The field for which each of these is refused."""
UNREADABLE = {
    "google-gem-48535f10400fbc3f": "`data:` twice, and no JSON after it",
    "vertex-gem-e3c1a756b1131f25": "a finish reason that the SDK does not know",
}
NO_ANSWER = {"vertex-gem-39b49e378d819796", "vertex-gem-bb5fcf04a71fc995", "vertex-gem-f130df983dc55c07"}
"""Hand-made records: no answer, or an answer without an end."""


def body_of(record: dict[str, Any]) -> dict[str, Any]:
    """Return the chat request of a recording, as it is after the contract's validation."""
    parsed = parse_chat_request(json.dumps(chat_request_of(rest_names(record["request"]))).encode())
    cap = {} if parsed.requested_cap is None else {"max_tokens": parsed.requested_cap}
    return {**parsed.fields, **parsed.extras, **cap}


def runs_tools(native: dict[str, Any]) -> bool:
    """Return whether the provider is asked to run tools itself."""
    tools = native.get("tools") or []
    return any(
        set(tool) != {"functionDeclarations"} for tool in (tools if isinstance(tools, list) else [tools])
    )


def test_every_recorded_request_keeps_its_meaning():
    counts = {"same": 0, "refused": 0, "otherwise": 0}
    for record in read_corpus("gemini_generate"):
        if record["request"] is None:
            continue
        native = rest_names(record["request"])
        try:
            sent = to_request(body_of(record), Family("gemini"))
        except Refusal as refused:
            field = refused.param
        else:
            field = None
        assert field == ("tools.0.type" if runs_tools(native) else REFUSED.get(record["id"])), record["id"]
        if field is not None:
            counts["refused"] += 1
            continue
        check(sent)
        same = meaning(sent) == meaning(native)
        assert same != (record["id"] in OTHERWISE), record["id"]
        counts["same" if same else "otherwise"] += 1
    print(counts)
    assert counts["same"] > 0


def payloads_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the answers of a recording. Without ``alt=sse`` a stream is one array, once with an extra comma."""
    text = record["response_text"]
    if text.lstrip().startswith("["):
        found: list[dict[str, Any]] = json.loads(re.sub(r",\s*\]\s*\Z", "]", text))
        return found
    return [json.loads(one) for one in (event_texts(text) if record["stream"] else [text])]


def answer_of(record: dict[str, Any], payloads: list[dict[str, Any]]) -> Answer:
    if not record["stream"]:
        return chat.read([to_completion(payloads[0], "slug", 1)], think_tags=False)
    stream = GeminiStream("slug", 1)
    chunks = [made for payload in payloads for made in stream.read(payload)]
    if not stream.has_finished:
        raise ValueError("a stream that was cut")
    return chat.read([*chunks, *stream.finish()], think_tags=False)


def test_every_recorded_answer_means_what_the_sdk_reads():
    counts = {"same": 0, "no answer": 0}
    for record in read_corpus("gemini_generate"):
        if record["status"] != 200 or record["id"] in UNREADABLE:
            continue
        payloads = payloads_of(record)
        if record["id"] in NO_ANSWER:
            with pytest.raises(ValueError, match=r"has no candidates|was cut"):
                answer_of(record, payloads)
            counts["no answer"] += 1
            continue
        recorded, got = gemini_sdk.read(payloads), answer_of(record, payloads)
        # A report without any count does not count as one.
        recorded.usage = recorded.usage or None
        assert difference(got, recorded) is None, record["id"]
        counts["same"] += 1
    print(counts)
    assert counts["same"] > 0
