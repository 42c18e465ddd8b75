"""Contract, "402 situations": a wallet, the monthly cap, overage protection, and the end of a hold."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from conftest import HELLO
from rig.bounds import BOUND_S
from rig.error_answers import assert_error
from rig.large import sampled
from rig.money import credit, holds, select, spent
from rig.scripts import RESET, UNTIL_CLIENT_LEAVES, Gate, chunk, chunked, completion, event, stream_of, whole
from rig.upstream import Upstream

from contract.conftest import PAID, PAID_NANOUSD

PATH = "/v1/chat/completions"


# --- wallet and month ----------------------------------------------------------------------------------------


def test_an_empty_wallet_refuses_calls_until_a_top_up(limited: Any, upstream: Upstream) -> None:
    one = limited(plan="standard")
    error = assert_error(one.chat(), 402, "payment_required", "invalid_request_error")
    assert error["message"].startswith("Insufficient API credits; top up")
    credit(one.ledger, "acme", "0.05", "invoice 1")
    answer = one.chat()
    assert answer.status_code == 200
    one.settled(answer)
    assert one.chat().status_code == 402
    credit(one.ledger, "acme", "0.5", "invoice 2")
    assert one.chat().status_code == 200
    assert len(upstream.requests) == 2


def test_each_call_that_the_wallet_pays_is_a_wallet_entry(limited: Any) -> None:
    one = limited(plan="standard", wallet="1")
    answer = one.chat()
    row = one.settled(answer)
    assert row["retail_nanousd"] == PAID_NANOUSD
    entries = select(one.ledger, "SELECT * FROM wallet_entries ORDER BY created_at")
    assert [(entry["amount_nanousd"], entry["reference"]) for entry in entries] == [
        (10**9, "test"),
        (-PAID_NANOUSD, "call"),
    ]
    assert entries[1]["id"] == row["id"]
    assert spent(one.ledger, "wallet:acme") == (PAID_NANOUSD - 10**9, 0)


def test_a_pro_workspace_does_not_use_its_wallet(limited: Any) -> None:
    one = limited(plan="pro", wallet="1")
    one.settled(one.chat())
    assert spent(one.ledger, "wallet:acme") == (-(10**9), 0)


def test_a_reached_monthly_cap_refuses_calls(limited: Any) -> None:
    one = limited(monthly_spend_cap_usd="0.01")
    one.settled(one.chat())
    error = assert_error(one.chat(), 402, "payment_required", "invalid_request_error")
    assert error["message"] == "Monthly spend limit reached."


# --- overage protection --------------------------------------------------------------------------------------


def test_overage_protection_lowers_the_cap_to_the_money_left(limited: Any, upstream: Upstream) -> None:
    one = limited(monthly_spend_cap_usd="1", overage_protection=True)
    upstream.behave((Gate(), *whole(completion(usage=PAID))))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(one.chat)
        sent = upstream.wait_for_requests(1)[0].json()
        (hold,) = holds(one.ledger)
        cap = sent["max_completion_tokens"]
        assert 1 <= cap < 100
        assert 10**9 - 10_000_000 < hold["amount_nanousd"] <= 10**9
        upstream.behave(whole(completion(usage=PAID)))
        one.gateway.kill()


def test_a_lower_cap_of_the_clients_wins_without_an_error(limited: Any, upstream: Upstream) -> None:
    one = limited(monthly_spend_cap_usd="1", overage_protection=True)
    assert one.chat(max_tokens=3).status_code == 200
    assert upstream.last.json()["max_completion_tokens"] == 3


def test_the_hold_is_for_all_choices(limited: Any, upstream: Upstream) -> None:
    one = limited(monthly_spend_cap_usd="1", overage_protection=True)
    assert one.chat().status_code == 200
    of_one = upstream.last.json()["max_completion_tokens"]
    assert one.chat(n=4).status_code == 200
    assert upstream.last.json()["max_completion_tokens"] <= of_one // 4


def test_without_overage_protection_the_cap_stays(limited: Any, upstream: Upstream) -> None:
    one = limited(monthly_spend_cap_usd="1")
    assert one.chat().status_code == 200
    assert upstream.last.json()["max_completion_tokens"] == 1_000


def test_a_call_without_money_for_a_completion_is_refused(limited: Any, upstream: Upstream) -> None:
    one = limited(monthly_spend_cap_usd="0.35", overage_protection=True)
    upstream.behave(whole(completion(usage=PAID | {"completion_tokens": 30})))
    one.settled(one.chat())
    left = 350_000_000 - spent(one.ledger, "workspace:acme", datetime.now(UTC).strftime("%Y-%m"))[0]
    assert 0 < left < 100_000_000
    answer = one.chat(messages=[{"role": "user", "content": "x" * 2_000}])
    error = assert_error(answer, 402, "payment_required", "invalid_request_error")
    assert error["message"].startswith("Insufficient budget for this completion request")
    assert "estimated prompt cost exceeds the remaining cap" in error["message"]
    assert len(upstream.requests) == 1


# --- how a hold ends -----------------------------------------------------------------------------------------

UPSTREAM_FAILURES: dict[str, Any] = {
    "500": whole({"error": {"message": "no"}}, 500),
    "reset": (RESET,),
    "an error under a 200": whole({"error": {"message": "no"}}),
    "a stream that breaks at once": chunked(RESET, finish=False),
}


@sampled(every=2)
@pytest.mark.parametrize("name", UPSTREAM_FAILURES)
def test_a_call_that_failed_releases_its_hold_and_costs_nothing(
    limited: Any, upstream: Upstream, name: str
) -> None:
    one = limited(plan="standard", wallet="1", overage_protection=True)
    upstream.behave(UPSTREAM_FAILURES[name])
    answer = one.chat(stream="stream" in name)
    assert answer.status_code >= 500
    assert one.settled(answer)["retail_nanousd"] == 0
    assert holds(one.ledger) == []
    assert spent(one.ledger, "wallet:acme") == (-(10**9), 0)


def test_a_hold_lasts_until_its_stream_ends_and_becomes_the_cost(limited: Any, upstream: Upstream) -> None:
    one = limited(plan="standard", wallet="1", overage_protection=True)
    gate = Gate()
    upstream.behave((*stream_of("a")[:2], gate, *stream_of("b", usage=PAID)[1:]))
    body = {"model": "dear", "messages": HELLO, "stream": True}
    url = one.gateway.url + PATH
    with httpx.stream(
        "POST", url, json=body, headers=one.headers, timeout=BOUND_S, trust_env=False
    ) as answer:
        lines = answer.iter_lines()
        next(lines)
        assert len(holds(one.ledger)) == 1
        gate.open()
        assert "data: [DONE]" in list(lines)
    row = one.gateway.wait_for_row(answer.headers["x-request-id"])
    assert row["retail_nanousd"] == PAID_NANOUSD
    assert holds(one.ledger) == []
    assert spent(one.ledger, "wallet:acme") == (PAID_NANOUSD - 10**9, 0)


def test_a_client_that_leaves_pays_for_what_was_relayed_and_no_hold_is_left(
    limited: Any, upstream: Upstream
) -> None:
    one = limited(plan="standard", wallet="1", overage_protection=True)
    upstream.behave(chunked(event(chunk("word " * 4)), UNTIL_CLIENT_LEAVES, finish=False))
    body = {"model": "dear", "messages": HELLO, "stream": True, "max_tokens": 20}
    url = one.gateway.url + PATH
    with httpx.stream(
        "POST", url, json=body, headers=one.headers, timeout=BOUND_S, trust_env=False
    ) as answer:
        next(answer.iter_lines())
    row = one.gateway.wait_for_row(answer.headers["x-request-id"])
    assert (row["status"], row["usage_source"]) == (499, "estimated")
    assert row["retail_nanousd"] > 0
    assert holds(one.ledger) == []
    assert spent(one.ledger, "wallet:acme") == (row["retail_nanousd"] - 10**9, 0)


def test_a_call_that_is_refused_for_money_leaves_no_row_and_no_hold(limited: Any) -> None:
    one = limited(plan="standard")
    answer = one.chat()
    assert answer.status_code == 402
    line = one.gateway.wait_for_log(lambda line: line.get("id") == answer.headers["x-request-id"])
    assert (line["event"], line["status"], line["error_code"]) == ("refusal", 402, "payment_required")
    assert select(one.ledger, "SELECT id FROM usage") == []
    assert holds(one.ledger) == []


def test_an_estimated_cost_never_exceeds_the_hold(limited: Any, upstream: Upstream) -> None:
    one = limited(plan="standard", wallet="1", overage_protection=True)
    upstream.behave(chunked(event(chunk("word " * 2_000)), UNTIL_CLIENT_LEAVES, finish=False))
    body = {"model": "dear", "messages": HELLO, "stream": True, "max_tokens": 20}
    url = one.gateway.url + PATH
    with httpx.stream(
        "POST", url, json=body, headers=one.headers, timeout=BOUND_S, trust_env=False
    ) as answer:
        lines = answer.iter_lines()  # Keep the iterator: the answer closes when it is deleted.
        next(lines)
        (hold,) = holds(one.ledger)
    row = one.gateway.wait_for_row(answer.headers["x-request-id"])
    assert (row["completion_tokens"], row["usage_source"]) == (20, "estimated")
    assert row["retail_nanousd"] == hold["amount_nanousd"]
