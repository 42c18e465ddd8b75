"""Contract: the ledger row and the log line of a call."""

from hashlib import sha256

import pytest
from conftest import Chat
from rig.gateway import Gateway
from rig.scripts import completion, whole
from rig.upstream import Upstream

PRICES = (
    '{"cost":"computed","markup_percent":"4","reasoning_beside":false,'
    '"retail":{"cached_input":78000,"input":156000,"output":624000},"rounding":1,'
    '"wholesale":{"cached_input":75000,"input":150000,"output":600000}}'
)


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
        "resends": 0,
        "reported_nanousd": None,
        "cache_write_1h_tokens": None,
        "audio_input_tokens": None,
        "cached_audio_tokens": None,
        "image_input_tokens": None,
        "audio_output_tokens": None,
        "searches": None,
        "service_tier": None,
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
        "price_set": sha256(PRICES.encode()).hexdigest()[:32],
        "platform_key": 1,
        "tags": None,
        "deployment": None,
        "budgets": None,
        "api": "chat",
    }


def test_the_metadata_of_a_request_is_kept_without_credentials_and_not_sent(
    chat: Chat, gateway: Gateway, upstream: Upstream
) -> None:
    answer = chat(metadata={"team": "search", "A": "sk-1234567890abcdef"})
    assert answer.headers["x-gateway-dropped"] == "metadata"
    assert "metadata" not in upstream.last.json()
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    assert row["tags"] == '{"A":"***","team":"search"}'


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
