"""The metrics of one process, counted from real calls and read back as Prometheus reads them."""

import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from rig.configuration import ROOT
from rig.metrics import CATALOG, EXCHANGE, KEY, MODEL, SECRET, TESTER, Samples, exchange_by, read, value

from addon.telemetry.metrics import MOST, MOST_NAMED, OTHER, REFUSAL_CODES, UPSTREAM_CODES, Metrics
from policies.exchange import Exchange
from policies.model import Attempt, Route, Usage
from policies.refusal import RefusalCode

PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("1.2.3")


# One process.


def test_a_settled_call_is_counted_with_its_tokens_its_cost_and_its_time(metrics: Metrics):
    metrics.call_ended(EXCHANGE, CATALOG, now_s=3.5)
    metrics.call_ended(EXCHANGE, CATALOG, now_s=3.5)
    told = read(metrics.render())
    calls = {"model": "tester-large", "provider": "TESTER", "mode": "payg", "status": "200"}
    assert value(told, "tollgate_calls_total", **calls) == 2
    tokens = {
        kind: value(told, "tollgate_tokens_total", kind=kind, model="tester-large")
        for kind in ("prompt", "cached", "completion", "reasoning")
    }
    assert tokens == {"prompt": 20, "cached": 8, "completion": 10, "reasoning": 4}
    cost = {"model": "tester-large", "mode": "payg"}
    assert value(told, "tollgate_cost_usd_total", price="retail", **cost) == pytest.approx(3.12)
    assert value(told, "tollgate_cost_usd_total", price="wholesale", **cost) == pytest.approx(3.0)
    whole = {"provider": "TESTER", "stream": "false"}
    assert value(told, "tollgate_call_seconds_sum", **whole) == pytest.approx(5.0)
    assert value(told, "tollgate_call_seconds_bucket", le="2.5", **whole) == 2
    assert value(told, "tollgate_call_seconds_bucket", le="1.0", **whole) == 0


def test_only_a_stream_that_began_has_a_first_byte(metrics: Metrics):
    metrics.call_ended(exchange_by(stream=False), CATALOG, now_s=2.0)
    metrics.call_ended(exchange_by(stream=True, first_byte_s=None), CATALOG, now_s=2.0)
    assert "tollgate_upstream_first_byte_seconds_sum" not in read(metrics.render())
    metrics.call_ended(exchange_by(stream=True), CATALOG, now_s=2.0)
    told = read(metrics.render())
    assert value(told, "tollgate_upstream_first_byte_seconds_sum", provider="TESTER") == pytest.approx(0.2)
    assert value(told, "tollgate_call_seconds_count", provider="TESTER", stream="true") == 2


def test_what_was_not_reported_and_not_billed_adds_nothing(metrics: Metrics):
    nothing = exchange_by(mode="byok", usage=Usage(), wholesale_nanousd=0, retail_nanousd=0)
    metrics.call_ended(nothing, CATALOG, now_s=2.0)
    told = read(metrics.render())
    assert sum(told["tollgate_tokens_total"].values()) == 0
    assert sum(told["tollgate_cost_usd_total"].values()) == 0


def _of_one_call(exchange: Exchange) -> Samples:
    metrics = Metrics("1.2.3")
    metrics.call_ended(exchange, CATALOG, now_s=2.0)
    return read(metrics.render())


def test_a_call_that_fell_back_is_counted_for_the_attempt_that_served_it(metrics: Metrics):
    other = replace(MODEL, slug="other-small", provider=replace(TESTER, name="OTHER"))
    second = Attempt(other, "payg", SecretStr(SECRET), is_fallback=True)
    attempts = (Attempt(MODEL, "byok", SecretStr(SECRET)), second)
    metrics.attempt_failed("TESTER", "upstream_error")
    fell_back = replace(EXCHANGE, route=Route(attempts, "pinned"), attempts=2, first_byte_s=1.5)
    metrics.call_ended(fell_back, {"tester-large", "other-small"}, now_s=2.0)
    told = read(metrics.render())
    assert list(told["tollgate_calls_total"]) == [
        frozenset({"model": "other-small", "provider": "OTHER", "mode": "payg", "status": "200"}.items())
    ]
    assert told["tollgate_upstream_errors_total"] == {
        frozenset({"provider": "TESTER", "code": "upstream_error"}.items()): 1
    }
    assert told["tollgate_fallbacks_total"] == {frozenset({"provider": "OTHER", "mode": "payg"}.items()): 1}
    assert "tollgate_fallbacks_total" not in _of_one_call(replace(fell_back, first_byte_s=None))


@pytest.mark.parametrize(
    ("status", "code", "counts"),
    [
        (502, "upstream_error", True),
        (429, "rate_limit_exceeded", True),
        (401, "invalid_api_key", True),
        (400, "invalid_request_error", True),
        (499, "client_disconnected", False),
        (499, "interrupted", False),
        (500, "internal_error", False),
        (200, None, False),
    ],
)
def test_an_attempt_that_its_provider_failed_is_an_upstream_error_once_and_no_other_is(
    metrics: Metrics, status: int, code: str | None, counts: bool
):
    metrics.call_ended(exchange_by(status=status, error_code=code), CATALOG, now_s=2.0)
    if code is not None:
        metrics.attempt_failed("TESTER", code)
    told = read(metrics.render())
    expected = {frozenset({"provider": "TESTER", "code": code}.items()): 1.0} if counts else {}
    assert told.get("tollgate_upstream_errors_total", {}) == expected


def test_every_refusal_begins_at_zero_and_is_counted_by_its_code(metrics: Metrics):
    before = read(metrics.render())["tollgate_refusals_total"]
    assert {dict(labels)["code"] for labels in before} == REFUSAL_CODES
    assert set(get_args(RefusalCode)) < REFUSAL_CODES
    assert set(before.values()) == {0.0}
    for code in ("payment_required", "payment_required", "client_disconnected"):
        metrics.call_refused(code)
    told = read(metrics.render())
    assert value(told, "tollgate_refusals_total", code="payment_required") == 2
    assert value(told, "tollgate_refusals_total", code="client_disconnected") == 1


@settings(max_examples=50)
@given(code=st.text(), slug=st.text())
def test_no_text_from_elsewhere_becomes_a_label(code: str, slug: str):
    metrics = Metrics("1.2.3")
    metrics.call_refused(code)
    metrics.call_ended(exchange_by(replace(MODEL, slug=slug), error_code=code), CATALOG, now_s=2.0)
    told = read(metrics.render())
    labels = [dict(labels) for by_labels in told.values() for labels in by_labels]
    assert {found["code"] for found in labels if "code" in found} <= REFUSAL_CODES | UPSTREAM_CODES
    assert {found["model"] for found in labels if "model" in found} <= CATALOG | {OTHER}


def test_nothing_of_the_customer_stands_on_the_page(metrics: Metrics):
    custom = replace(MODEL, slug="TESTER/acmes-own-model")
    metrics.call_ended(exchange_by(custom, "byok"), CATALOG, now_s=2.0)
    metrics.call_ended(EXCHANGE, CATALOG, now_s=2.0)
    body = metrics.render()[1].decode()
    for private in ("acme", "Acme", SECRET, KEY.hash, "what the client wrote", "somebody", "call-0"):
        assert private not in body


def test_an_absurd_count_neither_breaks_a_call_nor_makes_the_sum_deaf_to_later_ones(metrics: Metrics):
    absurd = exchange_by(usage=Usage(10**400, 1), retail_nanousd=10**500)
    metrics.call_ended(absurd, CATALOG, now_s=2.0)
    metrics.call_ended(EXCHANGE, CATALOG, now_s=2.0)
    told = read(metrics.render())
    assert value(told, "tollgate_tokens_total", kind="prompt", model="tester-large") == MOST + 10


def test_a_gauge_of_what_is_there_no_more_is_zero(metrics: Metrics):
    metrics.set_circuits_open({("TESTER", "payg", "all"): 1, ("TESTER", "byok", "workspace"): 3})
    metrics.set_circuits_open({("OTHER", "payg", "all"): 1})
    told = read(metrics.render())
    assert value(told, "tollgate_circuits_open", provider="TESTER", mode="payg", scope="all") == 0
    assert value(told, "tollgate_circuits_open", provider="TESTER", mode="byok", scope="workspace") == 0
    assert value(told, "tollgate_circuits_open", provider="OTHER", mode="payg", scope="all") == 1


def test_broken_files_are_named_the_first_of_them_one_by_one(metrics: Metrics):
    files = [Path(f"/somewhere/workspaces/w{number:03}.toml") for number in range(MOST_NAMED + 5)]
    metrics.set_broken_files(files)
    told = read(metrics.render())["tollgate_broken_files"]
    assert len(told) == MOST_NAMED + 1
    assert told[frozenset({("file", "workspaces/w000.toml")})] == 1
    assert told[frozenset({("file", OTHER)})] == 5
    metrics.set_broken_files(files[:1])
    assert sum(read(metrics.render())["tollgate_broken_files"].values()) == 1


def test_the_process_tells_its_version_and_when_it_began(metrics: Metrics):
    told = read(metrics.render())
    assert value(told, "tollgate_build_info", version="1.2.3") == 1
    assert value(told, "tollgate_workers") == value(told, "tollgate_worker_starts_total") == 1
    assert 1_700_000_000 < value(told, "tollgate_start_time_seconds") < 10_000_000_000


def test_two_gateways_in_one_program_count_apart(metrics: Metrics):
    other = Metrics("1.2.3")
    other.call_refused("bad_request")
    assert value(read(metrics.render()), "tollgate_refusals_total", code="bad_request") == 0


def test_the_pool_of_connections_is_counted(metrics: Metrics):
    for open_now, idle_now, opened, reused in ((3, 1, 5, 7), (2, 2, 6, 9)):
        metrics.set_upstream_connections(open_now=open_now, idle_now=idle_now, opened=opened, reused=reused)
        told = read(metrics.render())
        assert value(told, "tollgate_upstream_connections", state="open") == open_now
        assert value(told, "tollgate_upstream_connections", state="idle") == idle_now
        assert value(told, "tollgate_upstream_connections_opened_total") == opened
        assert value(told, "tollgate_upstream_connections_reused_total") == reused


# The page.


def fill_every_metric(metrics: Metrics) -> None:
    """Give each metric a sample."""
    fallback = replace(EXCHANGE.attempt, is_fallback=True)
    served = replace(EXCHANGE, route=Route((fallback,), "pinned"), first_byte_s=1.5)
    metrics.call_ended(served, CATALOG, now_s=2.0)
    metrics.call_ended(exchange_by(stream=True, error_code="upstream_error"), CATALOG, now_s=2.0)
    metrics.count_disbelieved("TESTER", "prompt_tokens")
    metrics.attempt_failed("TESTER", "upstream_error")
    metrics.set_platform_keys({("TESTER", "ready"): 1, ("TESTER", "resting"): 1})
    metrics.set_circuits_open({("TESTER", "payg", "all"): 0})
    metrics.set_broken_files([Path("workspaces/acme.toml")])


def test_every_metric_is_documented_with_its_type_and_its_labels(metrics: Metrics):
    fill_every_metric(metrics)
    told = {}
    for family in text_string_to_metric_families(metrics.render()[1].decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        told[name] = (family.type, labels)
    rows = re.findall(r"^\| `(tollgate_\w+)` \| (\w+) \| ([^|]*)\| \S", PAGE, re.MULTILINE)
    documented = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    ours = {name: found for name, found in told.items() if name.startswith("tollgate_")}
    assert documented == ours
    assert {name for name in told.keys() - ours.keys() if f"`{name}`" not in PAGE} == set()


def test_the_alerts_ask_for_metrics_labels_and_codes_that_exist(metrics: Metrics):
    fill_every_metric(metrics)
    told = read(metrics.render())
    asked = re.findall(r"(tollgate_\w+)(?:\{([^}]*)\})?[\[)]", PAGE.split("## Alerts")[1])
    assert len(asked) > 8
    for name, selector in asked:
        assert name in told
        for label, values in re.findall(r'(\w+)=~?"([^"]*)"', selector):
            assert all(label in dict(labels) for labels in told[name])
            known = REFUSAL_CODES | UPSTREAM_CODES
            known |= {dict(labels)[label] for labels in told[name]}
            assert set(values.split("|")) <= known
