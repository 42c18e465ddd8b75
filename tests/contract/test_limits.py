"""Contract, "Limits" and "402 situations": rate, caps, wallet and overage protection, as a client sees them."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, new_key, workspace
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.money import credit, holds, select, spent
from rig.scripts import RESET, UNTIL_CLIENT_LEAVES, Gate, chunk, chunked, completion, event, stream_of, whole
from rig.upstream import Upstream

PATH = "/v1/chat/completions"
MODELS = {
    # Retail prices: 1 USD for 1,000 prompt tokens, 1 USD for 100 completion tokens.
    "dear": model(input_price_per_m="1000", output_price_per_m="10000", max_completion_tokens=1_000),
    "cheap": model(input_price_per_m="0.001", output_price_per_m="0.001"),
}
PAID = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
PAID_NANOUSD = 10 * 1_000_000 + 5 * 10_000_000


class Limited:
    """A gateway with one workspace. The test sets its file and its wallet."""

    def __init__(self, start: StartGateway, key: dict[str, Any], wallet: str | None, **settings: Any) -> None:
        secret = new_key()
        made = workspace(
            ("ci", secret, True), **{"rpm_override": 1_000, "overage_protection": False} | settings
        )
        made["keys"][0] |= key
        made = {name: value for name, value in made.items() if value is not None}
        self.gateway: Gateway = start(
            models=MODELS, workspaces={"acme": made}, sections={"billing": {"markup_percent": "0"}}
        )
        self.headers = {"Authorization": f"Bearer {secret}"}
        if wallet:
            credit(self.ledger, "acme", wallet)

    @property
    def ledger(self) -> Path:
        return self.gateway.folder / "var" / "tollgate.db"

    def chat(self, **body: Any) -> httpx.Response:
        asked = {"model": "dear", "messages": HELLO} | body
        return httpx.post(
            self.gateway.url + PATH, json=asked, headers=self.headers, timeout=BOUND_S, trust_env=False
        )

    def settled(self, answer: httpx.Response) -> dict[str, Any]:
        return self.gateway.wait_for_row(answer.headers["x-request-id"])


@pytest.fixture
def limited(start_gateway: StartGateway, upstream: Upstream) -> Any:
    upstream.behave(whole(completion(usage=PAID)))

    def make(key: dict[str, Any] | None = None, wallet: str | None = None, **settings: Any) -> Limited:
        return Limited(start_gateway, key or {}, wallet, **settings)

    return make


# --- the rate ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("plan", "rpm"), [("standard", 60), ("pro", 120)])
def test_a_plan_admits_its_calls_a_minute_and_no_more(
    limited: Any, upstream: Upstream, plan: str, rpm: int
) -> None:
    one = limited(plan=plan, wallet="100", rpm_override=None)
    with httpx.Client(headers=one.headers, trust_env=False, timeout=BOUND_S) as client:
        url, body = one.gateway.url + PATH, {"model": "cheap", "messages": HELLO}
        began_s = time.monotonic()
        answers = [client.post(url, json=body) for _ in range(rpm + 5)]
        minutes = 1 + int((time.monotonic() - began_s) / 60)
    statuses = [answer.status_code for answer in answers]
    # A machine that needs more than a minute for these calls may get the tokens of the next minute.
    assert statuses == [200] * rpm + [429] * 5 or (minutes > 1 and statuses.count(200) <= rpm * minutes)
    assert len(upstream.requests) == statuses.count(200)
    if answers[-1].status_code == 429:
        error = assert_error(answers[-1], 429, "rate_limit_exceeded", "rate_limit_error")
        assert str(rpm) in error["message"]


def test_all_keys_of_a_workspace_share_one_rate(start_gateway: StartGateway, upstream: Upstream) -> None:
    keys = {name: new_key() for name in ("a", "b", "other")}
    shared = workspace(("a", keys["a"], True), ("b", keys["b"], True), rpm_override=2)
    other = workspace(("other", keys["other"], True), rpm_override=1)
    gateway = start_gateway(models=MODELS, workspaces={"acme": shared, "zeta": other})

    def status(name: str) -> int:
        headers = {"Authorization": f"Bearer {keys[name]}"}
        body = {"model": "cheap", "messages": HELLO}
        return httpx.post(
            gateway.url + PATH, json=body, headers=headers, timeout=BOUND_S, trust_env=False
        ).status_code

    assert [status(name) for name in ("a", "b", "a", "b", "other", "other")] == [200, 200, 429, 429, 200, 429]


def test_a_call_with_a_bad_body_takes_a_token_and_one_without_a_key_takes_none(limited: Any) -> None:
    one = limited(rpm_override=2)
    for _ in range(3):
        assert (
            httpx.post(one.gateway.url + PATH, json={}, timeout=BOUND_S, trust_env=False).status_code == 401
        )
    assert one.chat(messages=[]).status_code == 400
    assert one.chat().status_code == 200
    assert one.chat(messages=[]).status_code == 429
    url = one.gateway.url + "/v1/models"
    assert httpx.get(url, headers=one.headers, timeout=BOUND_S, trust_env=False).status_code == 200


def test_a_call_over_the_rate_is_refused_before_its_body(limited: Any) -> None:
    one = limited(rpm_override=1)
    assert one.chat().status_code == 200
    with httpx.Client(
        base_url=one.gateway.url, headers=one.headers, trust_env=False, timeout=BOUND_S
    ) as client:
        request = client.build_request("POST", PATH, content=iter([b'{"messages": [', b"never", b"finished"]))
        answer = client.send(request)
    assert_error(answer, 429, "rate_limit_exceeded", "rate_limit_error")


# --- caps of a key -------------------------------------------------------------------------------------------


def test_a_key_makes_as_many_calls_as_its_request_cap_allows(limited: Any, upstream: Upstream) -> None:
    one = limited(key={"request_cap": 2, "request_reset": "daily"})
    assert [one.chat().status_code for _ in range(2)] == [200, 200]
    error = assert_error(one.chat(), 429, "rate_limit_exceeded", "rate_limit_error")
    assert "request cap" in error["message"]
    assert len(upstream.requests) == 2


def test_calls_that_failed_upstream_count_and_those_that_were_refused_do_not(
    limited: Any, upstream: Upstream
) -> None:
    one = limited(key={"request_cap": 2})
    assert one.chat(messages=[]).status_code == 400
    upstream.behave(whole({"error": {"message": "no"}}, 500))
    assert one.chat().status_code == 500
    assert one.chat().status_code == 500
    assert one.chat().status_code == 429


def test_calls_in_flight_count_for_the_request_cap(limited: Any, upstream: Upstream) -> None:
    one = limited(key={"request_cap": 1})
    gate = Gate()
    upstream.behave((gate, *whole(completion())))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(one.chat)
        upstream.wait_for_requests(1)
        assert one.chat().status_code == 429
        gate.open()
        assert first.result().status_code == 200


def test_a_key_whose_spend_cap_is_reached_is_refused_until_the_next_period(
    limited: Any, upstream: Upstream
) -> None:
    one = limited(key={"spend_cap_usd": "0.06", "spend_reset": "monthly"})
    answer = one.chat()
    assert answer.status_code == 200
    one.settled(answer)
    error = assert_error(one.chat(), 402, "payment_required", "invalid_request_error")
    assert error["message"].startswith(
        "API key credit limit reached; increase the limit or wait for the reset"
    )
    assert len(upstream.requests) == 1
    month = datetime.now(UTC).strftime("%Y-%m")
    assert spent(one.ledger, "key:acme/ci", month) == (PAID_NANOUSD, 1)


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
