"""What a vendor charges by is in the ledger row of the call, and in the hold: tiers, cache terms and service tiers."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model
from rig.gateway import Gateway
from rig.scripts import CLOSE, chunk, chunked, completion, event, whole
from rig.upstream import Upstream

PATH = "/v1/chat/completions"
GPT_5_4 = model(
    input_price_per_m="2.5",
    output_price_per_m="15",
    cached_input_price_per_m="0.25",
    cache_write_price_per_m="3.125",
    cache_write_1h_price_per_m="5",
    max_completion_tokens=128_000,
    context_window=1_050_000,
    tiers=[
        {
            "above_prompt_tokens": 272_000,
            "input_price_per_m": "5",
            "output_price_per_m": "22.5",
            "cached_input_price_per_m": "0.5",
        }
    ],
    service_tiers={"flex": {"input_price_per_m": "1.25", "output_price_per_m": "7.5"}},
)

DAY = timedelta(days=1)
TIMED = model(
    upstream_model_id="vendor/timed",
    dated=[
        {"from_date": datetime.now(UTC).date() - DAY, "input_price_per_m": "0.3"},
        {"from_date": datetime.now(UTC).date() + 30 * DAY, "input_price_per_m": "9"},
    ],
)
HOURLY = model(
    upstream_model_id="vendor/hourly",
    hours=[{"utc": ["00:00-12:00", "12:00-24:00"], "output_price_per_m": "1.2"}],
)
REPORTED = model(upstream_model_id="vendor/reported", cost="reported")


@pytest.fixture(scope="module")
def priced(start_gateway: StartGateway) -> Gateway:
    return start_gateway(
        models={
            "tester-large": GPT_5_4,
            "plain": model(upstream_model_id="vendor/plain"),
            "reported": REPORTED,
            "timed": TIMED,
            "hourly": HOURLY,
        }
    )


def count(prompt: int, completed: int, **more: Any) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completed,
        "total_tokens": prompt + completed,
    } | more


def call(gateway: Gateway, **fields: Any) -> httpx.Response:
    body = {"model": "tester-large", "messages": HELLO} | fields
    return httpx.post(gateway.url + PATH, headers=gateway.headers, json=body, timeout=BOUND_S)


# usage, service tier of the answer, wholesale USD by hand
CALLS: Mapping[str, tuple[dict[str, Any], str | None, str]] = {
    "a long prompt": (count(300_000, 1_000), None, "1.5225"),
    "at the bound": (count(272_000, 1_000), "default", "0.695"),
    "a long cached prompt": (
        count(300_000, 1_000, prompt_tokens_details={"cached_tokens": 200_000}),
        None,
        "0.6225",
    ),
    "flex": (count(1_000, 1_000), "flex", "0.00875"),
    "a tier without a price": (count(1_000, 1_000), "scale", "0.0175"),
    "a cache of an hour": (
        count(
            3_000,
            0,
            cache_creation_input_tokens=3_000,
            cache_creation={"ephemeral_1h_input_tokens": 1_000, "ephemeral_5m_input_tokens": 0},
        ),
        None,
        "0.01125",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_row_has_what_the_vendor_charges(priced: Gateway, upstream: Upstream, case: str) -> None:
    usage, tier, usd = CALLS[case]
    upstream.behave(whole(completion(usage=usage) | ({"service_tier": tier} if tier else {})))
    answer = call(priced)
    assert answer.json()["usage"] == usage
    row = priced.wait_for_row(answer.headers["x-request-id"])
    assert row["service_tier"] == tier
    assert row["cache_write_1h_tokens"] == usage.get("cache_creation", {}).get("ephemeral_1h_input_tokens")
    assert row["wholesale_nanousd"] == int(Decimal(usd) * 10**9)
    assert row["retail_nanousd"] == int(Decimal(usd) * 104 * 10**7)


def test_a_tier_without_a_price_is_logged_and_a_normal_name_is_not(
    priced: Gateway, upstream: Upstream
) -> None:
    ids = []
    for tier in ("default", "auto", "flex", "scale"):
        upstream.behave(whole(completion() | {"service_tier": tier}))
        ids.append(call(priced).headers["x-request-id"])
    event = "service tier without a price"
    found = priced.wait_for_log(lambda line: line.get("event") == event and line["id"] in ids)
    assert (found["id"], found["model"]) == (ids[-1], "tester-large")
    assert "scale" in found["message"]


@pytest.mark.parametrize(
    ("slug", "asked", "sent"),
    [
        ("tester-large", "flex", "flex"),
        ("tester-large", "default", "default"),
        ("tester-large", "priority", None),
        ("tester-large", {"type": "flex"}, None),
        ("plain", "flex", None),
        ("plain", "default", None),
    ],
)
def test_a_service_tier_goes_out_only_with_a_price(
    priced: Gateway, upstream: Upstream, slug: str, asked: object, sent: str | None
) -> None:
    upstream.behave(whole(completion()))
    answer = call(priced, model=slug, service_tier=asked)
    assert answer.status_code == 200
    assert json.loads(upstream.last.body).get("service_tier") == sent
    assert answer.headers.get("x-gateway-dropped") == (None if sent else "service_tier")


@pytest.mark.parametrize(
    ("slug", "prices", "usd"), [("timed", (0.312, 0.624), "0.0009"), ("hourly", (0.156, 1.248), "0.00135")]
)
def test_the_prices_of_this_time_are_listed_and_charged(
    priced: Gateway, upstream: Upstream, slug: str, prices: tuple[float, float], usd: str
) -> None:
    upstream.behave(whole(completion(usage=count(1_000, 1_000))))
    row = priced.wait_for_row(call(priced, model=slug).headers["x-request-id"])
    assert row["wholesale_nanousd"] == int(Decimal(usd) * 10**9)
    listed = httpx.get(f"{priced.url}/v1/models", timeout=BOUND_S).json()
    [shown] = [one for one in listed if one["modelSlug"] == slug]
    assert (shown["inputPricePerMRetail"], shown["outputPricePerMRetail"]) == prices


def test_the_public_catalog_has_the_prices_of_the_first_tier(priced: Gateway) -> None:
    row = httpx.get(f"{priced.url}/v1/models/tester-large", timeout=BOUND_S).json()
    assert (row["inputPricePerMRetail"], row["outputPricePerMRetail"]) == (2.6, 15.6)


@pytest.mark.parametrize(
    ("slug", "reported", "kept", "wholesale"),
    [
        # 1,000 × $0.15 and 100 × $0.60 a million are 210,000 nano-USD.
        ("plain", 0.0005, 500_000, 210_000),
        ("reported", 0.0005, 500_000, 500_000),
        ("reported", 0, 0, 0),
        ("reported", -0.5, None, 210_000),
        ("reported", 1000, None, 210_000),
        ("reported", None, None, 210_000),
    ],
)
def test_a_reported_cost_is_kept_and_costs_where_the_model_says_so(
    priced: Gateway, upstream: Upstream, slug: str, reported: float | None, kept: int | None, wholesale: int
) -> None:
    upstream.behave(whole(completion(usage=count(1_000, 100, cost=reported))))
    answer = call(priced, model=slug, max_tokens=1_000)
    assert answer.json()["usage"]["cost"] == reported
    row = priced.wait_for_row(answer.headers["x-request-id"])
    assert (row["reported_nanousd"], row["wholesale_nanousd"]) == (kept, wholesale)
    assert row["retail_nanousd"] == wholesale * 104 // 100


def test_what_may_be_reported_does_not_grow_with_the_providers_own_counts(
    priced: Gateway, upstream: Upstream
) -> None:
    # Held for: a cap of 1,000 tokens, 0.0006 USD. Ten times the cap is plausible, and so would have been its tenfold.
    upstream.behave(whole(completion(usage=count(1_000, 10_000, cost=0.05))))
    row = priced.wait_for_row(call(priced, model="reported", max_tokens=1_000).headers["x-request-id"])
    assert (row["reported_nanousd"], row["wholesale_nanousd"]) == (None, 1_000 * 150 + 10_000 * 600)


def test_the_cost_of_a_part_is_not_that_of_the_call(priced: Gateway, upstream: Upstream) -> None:
    early = chunk("x" * 4_000) | {"usage": count(10, 0, cost=0)}
    upstream.behave(chunked(event(early), CLOSE))
    answer = call(priced, model="reported", stream=True)
    row = priced.wait_for_row(answer.headers["x-request-id"])
    assert (row["usage_source"], row["reported_nanousd"]) == ("estimated", None)
    assert row["wholesale_nanousd"] == 10 * 150 + 1_000 * 600


@pytest.mark.parametrize("kind", [{}, ["a"], 5])
def test_a_message_of_an_odd_type_is_priced_as_any(priced: Gateway, upstream: Upstream, kind: Any) -> None:
    upstream.behave(whole(completion(usage=count(1_000, 100))))
    assert call(priced, messages=[HELLO[0] | {"type": kind}]).status_code == 200
