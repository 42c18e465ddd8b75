"""Contract, "Chat completion response", "choices[] element" and "usage object"."""

import json
from typing import Any

import pytest
from conftest import Chat
from rig.gateway import Gateway
from rig.scripts import completion, whole
from rig.upstream import Upstream


def _choice(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    return {"index": 0, "message": {"role": "assistant"} | message, "finish_reason": finish, **more}


def _tokens(completion_tokens: int) -> dict[str, int]:
    return {"prompt_tokens": 9, "completion_tokens": completion_tokens, "total_tokens": 9 + completion_tokens}


def test_the_response_has_the_contracts_fields(chat: Chat, upstream: Upstream) -> None:
    answer = chat(model="tester-large")
    assert answer.status_code == 200
    assert answer.headers["content-type"].split(";")[0] == "application/json"
    assert answer.json() == completion() | {"model": "tester-large"}


@pytest.mark.parametrize("said", ["vendor-model-2026", "", None, 5, "tester-small", "tester-large", {"a": 1}])
def test_the_model_of_the_answer_is_the_catalog_slug(chat: Chat, upstream: Upstream, said: Any) -> None:
    upstream.behave(whole(completion(model=said)))
    assert chat(model="tester-large").json()["model"] == "tester-large"


def test_the_model_is_the_catalog_slug_if_the_upstream_names_none(chat: Chat, upstream: Upstream) -> None:
    unnamed = completion()
    del unnamed["model"]
    upstream.behave(whole(unnamed))
    assert chat(model="tester-large").json() == unnamed | {"model": "tester-large"}


def test_only_the_top_level_model_is_rewritten(chat: Chat, upstream: Upstream) -> None:
    said = completion('{"model": "vendor-model-2026"}', extra={"model": "inner"}, system_fingerprint="fp")
    upstream.behave(whole(said))
    assert chat(model="tester-large").json() == said | {"model": "tester-large"}


CALLS = [
    {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
]
LOGPROBS = {"content": [{"token": "hi", "logprob": -0.31725305, "bytes": [104, 105], "top_logprobs": []}]}
CHOICES: dict[str, list[dict[str, Any]]] = {
    "stop": [_choice({"content": "hi"}, "stop", logprobs=None)],
    "length": [_choice({"content": "hi"}, "length")],
    "content_filter": [_choice({"content": "h"}, "content_filter", content_filter_results={"hate": {}})],
    "an unknown finish_reason": [_choice({"content": "hi"}, "insufficient_system_resource")],
    "tool calls": [_choice({"content": None, "tool_calls": CALLS}, "tool_calls")],
    "logprobs": [_choice({"content": "hi"}, logprobs=LOGPROBS)],
    "reasoning": [_choice({"content": "hi", "reasoning_content": "Let me think."})],
    "reasoning alone": [_choice({"content": "", "reasoning_content": "Let me think."}, "length")],
    "refusal": [_choice({"content": None, "refusal": "No."})],
    "unknown keys": [_choice({"content": "hi", "annotations": [], "audio": None}, stop_reason=None)],
    "two choices": [_choice({"content": "a"}), _choice({"content": "b"}) | {"index": 1}],
    "no text and no token counts": [_choice({"content": None})],
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices_come_back_as_the_upstream_gave_them(chat: Chat, upstream: Upstream, name: str) -> None:
    tokens = None if name == "no text and no token counts" else _tokens(2)
    upstream.behave(whole(completion(choices=CHOICES[name], usage=tokens)))
    assert chat(n=len(CHOICES[name])).json()["choices"] == CHOICES[name]


USAGES: dict[str, str] = {
    "plain": '{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15}',
    "a cost in its own notation": '{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15,"cost":1.250e-05}',
    "digits beyond a float": '{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2,"x":0.10000000000000000001}',
    "integers beyond 64 bits": '{"prompt_tokens":12345678901234567890123,"completion_tokens":3,"total_tokens":15}',
    "details": '{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15,"prompt_tokens_details":'
    '{"cached_tokens":8,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":2}}',
    "null details": '{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15,"prompt_tokens_details":null}',
    "a total that is no sum": '{"prompt_tokens":12,"completion_tokens":3,"total_tokens":99}',
    "no total": '{"prompt_tokens":12,"completion_tokens":3}',
    "zeros": '{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}',
    "negative zero and floats": '{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15,"a":-0.0,"b":1E2}',
    "empty": "{}",
    "null": "null",
}


@pytest.mark.parametrize("name", USAGES)
def test_the_usage_block_is_untouched_to_the_digit(chat: Chat, upstream: Upstream, name: str) -> None:
    raw = json.dumps(completion(usage=0)).replace('"usage": 0', f'"usage":{USAGES[name]}').encode()
    upstream.behave(whole(raw))
    answer = chat()
    assert answer.status_code == 200, answer.text
    assert f'"usage":{USAGES[name]}' in answer.text


@pytest.mark.parametrize("cached", [None, {}, {"audio_tokens": 1}])
def test_cache_counts_are_never_invented(
    chat: Chat, upstream: Upstream, gateway: Gateway, cached: Any
) -> None:
    usage = _tokens(2) if cached is None else _tokens(2) | {"prompt_tokens_details": cached}
    upstream.behave(whole(completion(usage=usage)))
    answer = chat()
    assert answer.json()["usage"] == usage
    assert gateway.wait_for_row(answer.headers["x-request-id"])["cached_tokens"] is None


@pytest.mark.parametrize("content", [None, ""])
def test_reasoning_content_explains_tokens_without_text(
    chat: Chat, upstream: Upstream, content: str | None
) -> None:
    usage = _tokens(64)
    upstream.behave(whole(completion(choices=[_choice({"content": content}, "length")], usage=usage)))
    answer = chat().json()
    note = answer["choices"][0]["message"]["reasoning_content"]
    assert isinstance(note, str)
    assert "64" in note or "token" in note
    assert answer["usage"] == usage


NOTHING_TO_EXPLAIN: dict[str, tuple[dict[str, Any], int]] = {
    "visible content": ({"content": "hi"}, 64),
    "reasoning": ({"content": None, "reasoning_content": "hm"}, 64),
    "tool calls": ({"content": None, "tool_calls": CALLS}, 64),
    "no tokens": ({"content": ""}, 0),
}


@pytest.mark.parametrize("name", NOTHING_TO_EXPLAIN)
def test_answers_with_text_get_no_explanation(chat: Chat, upstream: Upstream, name: str) -> None:
    message, tokens = NOTHING_TO_EXPLAIN[name]
    choice = _choice(message, "tool_calls" if "tool_calls" in message else "stop")
    upstream.behave(whole(completion(choices=[choice], usage=_tokens(tokens))))
    assert chat().json()["choices"] == [choice]


@pytest.mark.parametrize(
    ("message", "reason"),
    [({"content": "hi"}, "stop"), ({"content": None, "tool_calls": CALLS}, "tool_calls")],
)
def test_a_choice_without_a_finish_reason_gets_one(
    chat: Chat, upstream: Upstream, message: dict[str, Any], reason: str
) -> None:
    upstream.behave(whole(completion() | {"choices": [_choice(message, None)]}))
    assert chat().json()["choices"] == [_choice(message, reason)]
