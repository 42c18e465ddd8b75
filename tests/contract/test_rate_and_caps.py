"""Contract, "Limits": the rate of a workspace, and the request cap and spend cap of a key."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import new_key, workspace
from rig.error_answers import assert_error
from rig.money import spent
from rig.scripts import Gate, completion, whole
from rig.upstream import Upstream

from contract.conftest import MODELS, PAID_NANOUSD

PATH = "/v1/chat/completions"


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
