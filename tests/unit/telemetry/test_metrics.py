"""The metrics of one process, counted from real calls and read back as Prometheus reads them."""

import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from rig.configuration import ROOT
from rig.ledger import route_fields
from rig.metrics import CATALOG, EXCHANGE, KEY, MODEL, SECRET, TESTER, Samples, exchange_by, read, value

from addon.telemetry.metric_families import FAMILIES, Sample
from addon.telemetry.metrics import MAX_ADDED, MAX_NAMED_FILES, OTHER, REFUSAL_CODES, UPSTREAM_CODES, Metrics
from policies.exchange import Exchange
from policies.refusal import RefusalCode
from policies.route import Target
from policies.usage import Usage

PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("1.2.3")


# One process.


def test_a_settled_call_is_counted_with_its_tokens_its_cost_and_its_time(metrics: Metrics):
    metrics.call_ended(EXCHANGE, CATALOG, now_s=3.5)
    metrics.call_ended(EXCHANGE, CATALOG, now_s=3.5)
    samples = read(metrics.render())
    calls = {"model": "tester-large", "provider": "TESTER", "mode": "payg", "status": "200"}
    assert value(samples, "tollgate_calls_total", **calls) == 2
    tokens = {
        kind: value(samples, "tollgate_tokens_total", kind=kind, model="tester-large")
        for kind in ("prompt", "cached", "completion", "reasoning")
    }
    assert tokens == {"prompt": 20, "cached": 8, "completion": 10, "reasoning": 4}
    cost = {"model": "tester-large", "mode": "payg"}
    assert value(samples, "tollgate_cost_usd_total", price="retail", **cost) == pytest.approx(3.12)
    assert value(samples, "tollgate_cost_usd_total", price="wholesale", **cost) == pytest.approx(3.0)
    whole = {"provider": "TESTER", "stream": "false"}
    assert value(samples, "tollgate_call_seconds_sum", **whole) == pytest.approx(5.0)
    assert value(samples, "tollgate_call_seconds_bucket", le="2.5", **whole) == 2
    assert value(samples, "tollgate_call_seconds_bucket", le="1.0", **whole) == 0


def test_only_a_stream_that_started_has_a_first_byte(metrics: Metrics):
    metrics.call_ended(exchange_by(stream=False), CATALOG, now_s=2.0)
    metrics.call_ended(exchange_by(stream=True, first_byte_s=None), CATALOG, now_s=2.0)
    assert "tollgate_upstream_first_byte_seconds_sum" not in read(metrics.render())
    metrics.call_ended(exchange_by(stream=True), CATALOG, now_s=2.0)
    samples = read(metrics.render())
    assert value(samples, "tollgate_upstream_first_byte_seconds_sum", provider="TESTER") == pytest.approx(0.2)
    assert value(samples, "tollgate_call_seconds_count", provider="TESTER", stream="true") == 2


def test_unreported_tokens_and_unbilled_costs_add_nothing(metrics: Metrics):
    nothing = exchange_by(mode="byok", usage=Usage(), wholesale_nanousd=0, retail_nanousd=0)
    metrics.call_ended(nothing, CATALOG, now_s=2.0)
    samples = read(metrics.render())
    assert sum(samples["tollgate_tokens_total"].values()) == 0
    assert sum(samples["tollgate_cost_usd_total"].values()) == 0


def _of_one_call(exchange: Exchange) -> Samples:
    metrics = Metrics("1.2.3")
    metrics.call_ended(exchange, CATALOG, now_s=2.0)
    return read(metrics.render())


def test_a_call_that_fell_back_is_counted_for_the_attempt_that_served_it(metrics: Metrics):
    other = replace(MODEL, slug="other-small", provider=replace(TESTER, name="OTHER"))
    second = Target(other, "payg", SecretStr(SECRET), is_fallback=True)
    targets = (Target(MODEL, "byok", SecretStr(SECRET)), second)
    metrics.attempt_failed("TESTER", "upstream_error")
    fell_back = structs.replace(EXCHANGE, **route_fields(*targets, made=2), first_byte_s=1.5)
    metrics.call_ended(fell_back, {"tester-large", "other-small"}, now_s=2.0)
    samples = read(metrics.render())
    assert list(samples["tollgate_calls_total"]) == [
        frozenset({"model": "other-small", "provider": "OTHER", "mode": "payg", "status": "200"}.items())
    ]
    assert samples["tollgate_upstream_errors_total"] == {
        frozenset({"provider": "TESTER", "code": "upstream_error"}.items()): 1
    }
    assert samples["tollgate_fallbacks_total"] == {
        frozenset({"provider": "OTHER", "mode": "payg"}.items()): 1
    }
    assert "tollgate_fallbacks_total" not in _of_one_call(structs.replace(fell_back, first_byte_s=None))


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
def test_only_an_attempt_that_failed_at_its_provider_is_an_upstream_error(
    metrics: Metrics, status: int, code: str | None, counts: bool
):
    metrics.call_ended(exchange_by(status=status, error_code=code), CATALOG, now_s=2.0)
    if code is not None:
        metrics.attempt_failed("TESTER", code)
    samples = read(metrics.render())
    expected = {frozenset({"provider": "TESTER", "code": code}.items()): 1.0} if counts else {}
    assert samples.get("tollgate_upstream_errors_total", {}) == expected


def test_every_refusal_starts_at_zero_and_is_counted_by_its_code(metrics: Metrics):
    before = read(metrics.render())["tollgate_refusals_total"]
    assert {dict(labels)["code"] for labels in before} == REFUSAL_CODES
    assert set(get_args(RefusalCode)) < REFUSAL_CODES
    assert set(before.values()) == {0.0}
    for code in ("payment_required", "payment_required", "client_disconnected"):
        metrics.call_refused(code)
    samples = read(metrics.render())
    assert value(samples, "tollgate_refusals_total", code="payment_required") == 2
    assert value(samples, "tollgate_refusals_total", code="client_disconnected") == 1


def test_calls_and_refusals_are_counted_by_the_api_of_their_client(metrics: Metrics):
    assert set(read(metrics.render())["tollgate_api_calls_total"].values()) == {0.0}
    metrics.call_ended(exchange_by(api="responses"), CATALOG, now_s=2.0)
    metrics.call_refused("payment_required", "messages")
    counts = read(metrics.render())["tollgate_api_calls_total"]
    assert {labels: count for labels, count in counts.items() if count} == {
        frozenset({"api": "responses", "outcome": "sent"}.items()): 1,
        frozenset({"api": "messages", "outcome": "refused"}.items()): 1,
    }


@settings(max_examples=50)
@given(code=st.text(), slug=st.text())
def test_no_foreign_text_becomes_a_label(code: str, slug: str):
    metrics = Metrics("1.2.3")
    metrics.call_refused(code)
    metrics.call_ended(exchange_by(replace(MODEL, slug=slug), error_code=code), CATALOG, now_s=2.0)
    samples = read(metrics.render())
    labels = [dict(labels) for by_labels in samples.values() for labels in by_labels]
    assert {found["code"] for found in labels if "code" in found} <= REFUSAL_CODES | UPSTREAM_CODES
    assert {found["model"] for found in labels if "model" in found} <= CATALOG | {OTHER}


def test_the_page_contains_no_data_of_a_customer(metrics: Metrics):
    custom = replace(MODEL, slug="TESTER/acmes-own-model")
    metrics.call_ended(exchange_by(custom, "byok"), CATALOG, now_s=2.0)
    metrics.call_ended(EXCHANGE, CATALOG, now_s=2.0)
    body = metrics.render()[1].decode()
    for private in ("acme", "Acme", SECRET, KEY.hash, "what the client wrote", "somebody", "call-0"):
        assert private not in body


def test_an_absurd_count_breaks_no_call_and_keeps_the_sum_exact(metrics: Metrics):
    absurd = exchange_by(usage=Usage(10**400, 1), retail_nanousd=10**500)
    metrics.call_ended(absurd, CATALOG, now_s=2.0)
    metrics.call_ended(EXCHANGE, CATALOG, now_s=2.0)
    samples = read(metrics.render())
    assert value(samples, "tollgate_tokens_total", kind="prompt", model="tester-large") == MAX_ADDED + 10


def test_a_gauge_of_something_that_is_gone_is_zero(metrics: Metrics):
    metrics.set_circuits_open({("TESTER", "payg", "all"): 1, ("TESTER", "byok", "workspace"): 3})
    metrics.set_circuits_open({("OTHER", "payg", "all"): 1})
    samples = read(metrics.render())
    assert value(samples, "tollgate_circuits_open", provider="TESTER", mode="payg", scope="all") == 0
    assert value(samples, "tollgate_circuits_open", provider="TESTER", mode="byok", scope="workspace") == 0
    assert value(samples, "tollgate_circuits_open", provider="OTHER", mode="payg", scope="all") == 1


def test_broken_files_are_named_up_to_a_bound(metrics: Metrics):
    files = [Path(f"/somewhere/workspaces/w{number:03}.toml") for number in range(MAX_NAMED_FILES + 5)]
    metrics.set_broken_files(files)
    samples = read(metrics.render())["tollgate_broken_files"]
    assert len(samples) == MAX_NAMED_FILES + 1
    assert samples[frozenset({("file", "workspaces/w000.toml")})] == 1
    assert samples[frozenset({("file", OTHER)})] == 5
    metrics.set_broken_files(files[:1])
    assert sum(read(metrics.render())["tollgate_broken_files"].values()) == 1


def test_a_file_that_differs_no_more_becomes_0(metrics: Metrics):
    metrics.set_files_differ([("gateway-1", "catalog_data/models.toml"), ("gateway-2", "acme.toml")])
    metrics.set_files_differ([("gateway-2", "acme.toml")])
    samples = read(metrics.render())
    assert value(samples, "tollgate_files_differ", machine="gateway-1", file="catalog_data/models.toml") == 0
    assert value(samples, "tollgate_files_differ", machine="gateway-2", file="acme.toml") == 1


def test_the_page_has_the_version_and_the_start_time(metrics: Metrics):
    samples = read(metrics.render())
    assert value(samples, "tollgate_build_info", version="1.2.3") == 1
    assert value(samples, "tollgate_workers") == value(samples, "tollgate_worker_starts_total") == 1
    assert 1_700_000_000 < value(samples, "tollgate_start_time_seconds") < 10_000_000_000


def test_two_gateways_in_one_process_count_separately(metrics: Metrics):
    other = Metrics("1.2.3")
    other.call_refused("bad_request")
    assert value(read(metrics.render()), "tollgate_refusals_total", code="bad_request") == 0


def test_the_pool_of_connections_is_counted(metrics: Metrics):
    for open_now, idle_now, opened, reused in ((3, 1, 5, 7), (2, 2, 6, 9)):
        metrics.set_upstream_connections(open_now=open_now, idle_now=idle_now, opened=opened, reused=reused)
        samples = read(metrics.render())
        assert value(samples, "tollgate_upstream_connections", state="open") == open_now
        assert value(samples, "tollgate_upstream_connections", state="idle") == idle_now
        assert value(samples, "tollgate_upstream_connections_opened_total") == opened
        assert value(samples, "tollgate_upstream_connections_reused_total") == reused


# The page.


def fill_every_metric(metrics: Metrics) -> None:
    """Give each metric a sample."""
    fallback = replace(EXCHANGE.target, is_fallback=True)
    served = structs.replace(EXCHANGE, **route_fields(fallback), first_byte_s=1.5)
    metrics.set_reload_failed(failed=False)
    metrics.set_settings_age(1.5)
    metrics.set_in_use({"calls": 1})
    metrics.call_ended(served, CATALOG, now_s=2.0)
    metrics.call_ended(exchange_by(stream=True, error_code="upstream_error"), CATALOG, now_s=2.0)
    metrics.count_implausible_usage("TESTER", "prompt_tokens")
    metrics.count_resend("TESTER")
    metrics.attempt_failed("TESTER", "upstream_error")
    metrics.set_platform_keys({("TESTER", "ready"): 1, ("TESTER", "resting"): 1})
    metrics.set_circuits_open({("TESTER", "payg", "all"): 0})
    metrics.set_broken_files([Path("workspaces/acme.toml")])
    metrics.set_files_differ([("gateway-1", "acme.toml")])
    left_usd = {("wallet", "acme"): 1.5, ("monthly_spend_cap", "acme"): 2.5}
    metrics.set_workspace_budgets(left_usd, is_all=True)


def test_a_workspace_that_is_gone_has_no_gauge(metrics: Metrics) -> None:
    def shown() -> dict[frozenset[tuple[str, str]], float]:
        return read(metrics.render()).get("tollgate_workspace_wallet_usd", {})

    acme, beta = frozenset({("workspace", "acme")}), frozenset({("workspace", "beta")})
    metrics.set_workspace_budgets({("wallet", "acme"): 1.5, ("wallet", "beta"): 2.5}, is_all=True)
    metrics.set_workspace_budgets({("wallet", "beta"): 2.0}, is_all=False)
    assert shown() == {acme: 1.5, beta: 2.0}
    metrics.set_workspace_budgets({("wallet", "acme"): -0.5}, is_all=True)
    assert shown() == {acme: -0.5}


def test_every_metric_is_documented_with_its_type_and_its_labels(metrics: Metrics):
    fill_every_metric(metrics)
    samples = {}
    for family in text_string_to_metric_families(metrics.render()[1].decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        samples[name] = (family.type, labels)
    rows = re.findall(r"^\| `(tollgate_\w+)` \| (\w+) \| ([^|]*)\| \S", PAGE, re.MULTILINE)
    documented = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    ours = {name: found for name, found in samples.items() if name.startswith("tollgate_")}
    assert documented == ours
    assert {name for name in samples.keys() - ours.keys() if f"`{name}`" not in PAGE} == set()


def test_the_alerts_use_metrics_labels_and_codes_that_exist(metrics: Metrics):
    fill_every_metric(metrics)
    samples = read(metrics.render())
    asked = re.findall(r"(tollgate_\w+)(?:\{([^}]*)\})?[\[)]", PAGE.split("## Alerts")[1])
    assert len(asked) > 8
    for name, selector in asked:
        assert name in samples
        for label, values in re.findall(r'(\w+)=~?"([^"]*)"', selector):
            assert all(label in dict(labels) for labels in samples[name])
            known = REFUSAL_CODES | UPSTREAM_CODES
            known |= {dict(labels)[label] for labels in samples[name]}
            assert set(values.split("|")) <= known


def test_the_gauges_are_those_of_the_page() -> None:
    metrics = Metrics("1.2.3")
    metrics.set_platform_keys({("LARGE", "ready"): 2, ("SMALL", "resting"): 1})
    metrics.holds_in_flight[0] = 3
    page = metrics.render()[1].decode()
    gauges = {name: family for name, family in FAMILIES.items() if family.kind == "gauge"}
    read = {
        (family.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        if family.name in gauges
        for sample in family.samples
    }
    found = metrics.read_gauges()
    assert found.keys() == gauges.keys()
    assert found["tollgate_holds_in_flight"] == [Sample({}, 3)]
    assert {
        (name, *sorted(one.labels.items())): one.value for name, samples in found.items() for one in samples
    } == read
