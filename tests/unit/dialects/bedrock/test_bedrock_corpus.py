"""Recorded requests and answers of Amazon Bedrock's Converse API keep their meaning, whole and as streams."""

import json
from collections import Counter

from openai.types.chat import ChatCompletion
from rig.corpus import needs_corpus, read_corpus
from rig.native_anthropic_answers import assembled
from rig.native_converse import NotInChatError, chat_request_of, check_request, meaning_of_request, recordings
from rig.native_converse_stream import event_frame, stream_of

from addon.answers.context import AnswerContext
from addon.apis.chat.request import parse_chat_request
from addon.dialects.bedrock import dialect
from addon.dialects.bedrock.answer import to_completion
from addon.dialects.bedrock.request import to_request
from policies.family import Family
from policies.refusal import Refusal

pytestmark = needs_corpus
FAMILY = Family("claude", extra=frozenset({"thinking", "reasoning_config", "reasoning_effort"}))
GPT_OSS = Family("gpt-oss", extra=frozenset({"reasoning_effort"}))
CONTEXT = AnswerContext("slug", Family("any"), created_s=1, answer_id="chatcmpl-1")


def answers():
    found = [record for record in recordings() if record["status"] == 200]
    return [(record["id"], json.loads(record["response_text"])) for record in found]


def meaning(completion):
    (choice,) = completion["choices"]
    message = choice["message"]
    details = message.get("reasoning_details") or []
    return {
        "text": message.get("content") or "",
        "reasoning": message.get("reasoning_content") or "",
        "details": [{name: detail[name] for name in detail if name != "index"} for detail in details],
        "calls": [
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls") or []
        ],
        "finish_reason": choice["finish_reason"],
        "usage": completion.get("usage"),
    }


def test_every_recorded_answer_is_a_chat_completion_with_its_whole_content():
    for record_id, answer in answers():
        made = to_completion(answer, "slug", 1, "chatcmpl-1")
        ChatCompletion.model_validate(made)
        blocks = answer["output"]["message"]["content"]
        text = "".join(
            block.get("text", "")
            + "".join(part["text"] for part in block.get("citationsContent", {}).get("content", []))
            for block in blocks
        )
        assert meaning(made)["text"] == text, record_id
        used = [block["toolUse"] for block in blocks if "toolUse" in block]
        ours = [
            (one["toolUseId"], one["name"], one["input"])
            for one in used
            if one.get("type") != "server_tool_use"
        ]
        assert meaning(made)["calls"] == ours, record_id
    assert len(answers()) == 57


def test_tokens_of_the_cache_are_part_of_the_prompt_and_the_total_is_the_sum():
    cached = 0
    for record_id, answer in answers():
        usage = to_completion(answer, "slug", 1)["usage"] if "usage" in answer else None
        if usage:
            assert usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"], record_id
            cached += bool(usage.get("prompt_tokens_details", {}).get("cached_tokens"))
    assert cached == 1


def test_every_recorded_answer_as_a_stream_means_the_same():
    for record_id, answer in answers():
        frames = b"".join(event_frame(name, payload) for name, payload in stream_of(answer))
        reader = dialect.stream(CONTEXT)
        shown = reader.feed(frames) + reader.finish()
        assert reader.failure is None and shown.endswith(b"data: [DONE]\n\n"), record_id
        chunks = [json.loads(line[6:]) for line in shown.splitlines() if line.startswith(b"data: {")]
        made = meaning(assembled(chunks))
        assert made == meaning(to_completion(answer, "slug", 1)), record_id


def test_every_recorded_request_with_a_chat_form_keeps_its_meaning():
    unsaid, count = Counter(), 0
    for record in recordings():
        native = record["request"]
        if not native or record["status"] == 400:
            continue
        try:
            chat = chat_request_of(native)
        except NotInChatError as error:
            unsaid[str(error)] += 1
            continue
        made = to_request(chat, GPT_OSS if "gpt-oss" in record["url_path"] else FAMILY)
        check_request(made)
        assert meaning_of_request(made) == meaning_of_request(native), record["id"]
        count += 1
    assert count >= 40, unsaid


def test_no_request_causes_a_recorded_400_about_a_schema():
    told = "is not supported"
    refused = [
        record for record in recordings() if record["status"] == 400 and told in record["response_text"]
    ]
    found = 0
    for record in refused:
        if "property" not in record["response_text"]:
            continue
        made = to_request(chat_request_of(record["request"]), FAMILY)
        check_request(made)
        assert not any(f'"{word}":' in json.dumps(made) for word in ("maxItems", "multipleOf")), record["id"]
        found += 1
    assert found == 3


def test_every_recorded_chat_request_has_a_form_of_the_api_or_is_refused_by_name():
    taken, refused = 0, Counter()
    for record in read_corpus():
        try:
            chat = parse_chat_request(json.dumps(record["request"]).encode())
        except Refusal:
            continue  # the gateway's own checks come first
        try:
            made = to_request({"model": "m", "max_tokens": 9, **chat.fields}, FAMILY)
        except Refusal as refusal:
            refused[refusal.code, bool(refusal.param)] += 1
        else:
            check_request({name: made[name] for name in made if name != "toolConfig"})
            taken += 1
    assert taken > 1_200
    assert refused.keys() == {("validation_failed", True)}
    assert refused.total() < 100, refused
