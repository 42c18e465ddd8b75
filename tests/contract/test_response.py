"""Contract, "Chat completion response", "choices[] element" and "usage object", and the ledger row of each call."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from conftest import Chat
from rig.gateway import Gateway
from rig.scripts import Script, chunked, completion, until_close, whole
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
    "no finish_reason": [_choice({"content": "hi"}, None)],
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


# --- headers and framing -------------------------------------------------------------------------------------

COMES_BACK = {
    "content-type",
    "content-length",
    "transfer-encoding",
    "connection",
    "date",
    "cache-control",
    "x-request-id",
    "x-content-type-options",
}
UPSTREAM_HEADERS = [
    ("Set-Cookie", "session=vendor"),
    ("Server", "vendor"),
    ("X-Request-Id", "vendor"),
    ("X-RateLimit-Remaining-Requests", "vendor"),
    ("Retry-After", "0007"),
    ("OpenAI-Organization", "vendor"),
    ("Access-Control-Allow-Origin", "*"),
    ("Via", "1.1 vendor"),
    ("Alt-Svc", 'h3="vendor:443"'),
    ("Strict-Transport-Security", "max-age=1"),
    ("X-Gateway-Fallback", "true"),
    ("CF-Ray", "vendor"),
]


@pytest.mark.parametrize("status", [200, 400, 429, 500])
@pytest.mark.parametrize("stream", [False, True])
def test_no_header_of_the_upstream_is_returned(
    chat: Chat, upstream: Upstream, status: int, stream: bool
) -> None:
    body = completion() if status == 200 else {"error": {"message": "no"}}
    upstream.behave(whole(body, status, UPSTREAM_HEADERS))
    answer = chat(stream=stream and status != 200)
    assert answer.status_code == status
    remade = {"retry-after"} if status != 200 else set()
    assert set(answer.headers) <= COMES_BACK | remade
    assert "vendor" not in str(answer.headers)
    assert answer.headers.get("retry-after", "7") == "7"


def test_every_call_has_a_request_id_of_its_own(chat: Chat) -> None:
    ids = {chat().headers["x-request-id"] for _ in range(5)}
    assert len(ids) == 5


def test_answers_have_no_cors_headers(client: httpx.Client) -> None:
    body = {"messages": [{"role": "user", "content": "hello"}]}
    answer = client.post("/v1/chat/completions", json=body, headers={"Origin": "https://page.test"})
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]


ENVELOPES: dict[str, Callable[[bytes], Script]] = {
    "a length": whole,
    "chunks": lambda raw: chunked(raw[:10], raw[10:11], raw[11:], content_type="application/json"),
    "one chunk a byte": lambda raw: chunked(
        *(raw[i : i + 1] for i in range(len(raw))), content_type="application/json"
    ),
    "the end of the connection": lambda raw: until_close(raw, content_type="application/json"),
    "no content type": lambda raw: whole(raw, content_type=None),
    "a charset": lambda raw: whole(raw, content_type="application/json; charset=utf-8"),
    "text/plain": lambda raw: whole(raw, content_type="text/plain"),
    "status 201": lambda raw: whole(raw, status=201),
    "white space before and after": lambda raw: whole(b"\n\n   \r\n" + raw + b"\n"),
    "a byte order mark": lambda raw: whole(b"\xef\xbb\xbf" + raw),
    "unknown headers": lambda raw: whole(raw, headers=[("X-Odd", "\xe9"), ("X-Odd", "2")]),
}


@pytest.mark.parametrize("name", ENVELOPES)
def test_a_completion_is_read_in_each_framing(chat: Chat, upstream: Upstream, name: str) -> None:
    upstream.behave(ENVELOPES[name](json.dumps(completion("ça va ✓"), ensure_ascii=False).encode()))
    answer = chat()
    assert (answer.status_code, answer.json()) == (200, completion("ça va ✓") | {"model": "tester-large"})


def test_an_upstream_over_tls_is_verified_and_used(
    chat: Chat, upstreams: dict[str, Any], gateway: Gateway
) -> None:
    secure, untrusted = upstreams["SECURE"], upstreams["UNTRUSTED"]
    secure.reset()
    untrusted.reset()
    assert chat(model="secure-model").json()["model"] == "secure-model"
    assert len(secure.requests) == 1
    refused = chat(model="untrusted-model")
    assert (refused.status_code, refused.json()["error"]["code"]) == (502, "upstream_error")
    assert untrusted.requests == []


def test_an_upstream_connection_is_used_again(chat: Chat, upstream: Upstream) -> None:
    for _ in range(4):
        assert chat().status_code == 200
    assert len({request.connection for request in upstream.requests}) == 1


# --- the ledger row ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_is_one_ledger_row_with_its_request_id(
    chat: Chat, gateway: Gateway, upstream: Upstream, stream: bool
) -> None:
    answer = chat(model="tester-large", stream=stream, user="customer-7")
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    timings = {row.pop("first_byte_ms"), row.pop("duration_ms")}
    assert all(isinstance(value, int) and value >= 0 for value in timings)
    assert row.pop("created_at").startswith("20")
    # 9 and 2 tokens at 150 and 600 nano-USD a token, and the same with four percent on top.
    assert row == {
        "id": answer.headers["x-request-id"],
        "workspace": "acme",
        "key_id": "ci",
        "requested_model": "tester-large",
        "model_slug": "tester-large",
        "provider": "TESTER",
        "upstream_model_id": "vendor/large-2026",
        "mode": "payg",
        "fallback": 0,
        "attempts": 1,
        "stream": int(stream),
        "status": 200,
        "error_code": None,
        "finish_reason": "stop",
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "total_tokens": 11,
        "cached_tokens": None,
        "reasoning_tokens": None,
        "cache_write_tokens": None,
        "usage_source": "provider",
        "wholesale_nanousd": 2550,
        "retail_nanousd": 2652,
        "end_user": "customer-7",
        "client_request_id": None,
    }


def test_cached_tokens_cost_the_cached_price(chat: Chat, gateway: Gateway, upstream: Upstream) -> None:
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        "total_tokens": 1100,
        "prompt_tokens_details": {"cached_tokens": 400},
        "completion_tokens_details": {"reasoning_tokens": 60},
    }
    upstream.behave(whole(completion(usage=usage)))
    row = gateway.wait_for_row(chat(model="tester-large").headers["x-request-id"])
    assert (row["cached_tokens"], row["reasoning_tokens"]) == (400, 60)
    assert row["wholesale_nanousd"] == 600 * 150 + 400 * 75 + 100 * 600
    assert row["retail_nanousd"] == 600 * 156 + 400 * 78 + 100 * 624


def test_a_providers_zero_stays_zero(chat: Chat, gateway: Gateway, upstream: Upstream) -> None:
    zero = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    upstream.behave(whole(completion(usage=zero)))
    row = gateway.wait_for_row(chat().headers["x-request-id"])
    assert (row["prompt_tokens"], row["completion_tokens"], row["retail_nanousd"]) == (0, 0, 0)
    assert row["usage_source"] == "provider"


def test_a_call_writes_one_log_line_without_its_content(
    chat: Chat, gateway: Gateway, upstream: Upstream
) -> None:
    upstream.behave(whole(completion("a-private-answer")))
    answer = chat(messages=[{"role": "user", "content": "a-private-question"}])
    line = gateway.wait_for_log(lambda line: line.get("id") == answer.headers["x-request-id"])
    assert "acme" in line.values()
    assert "tester-large" in line.values()
    assert 200 in line.values()
    assert "a-private" not in "\n".join(gateway.stderr_lines)
