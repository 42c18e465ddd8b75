"""The families of metrics: the page has the samples that prometheus_client's own metrics give."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    enable_created_metrics,
)

from addon.telemetry.metric_cells import CellMemory
from addon.telemetry.metric_families import CALL_BUCKETS_S, FAMILIES, STORE_BUCKETS_S, Family, render_registry


@pytest.fixture(autouse=True, scope="module")
def no_creation_times() -> Iterator[None]:
    disable_created_metrics()
    yield
    enable_created_metrics()


class Page:
    """One family with its numbers, as a registry asks for it."""

    def __init__(self, family: Family, numbers: dict[tuple[str, ...], Sequence[float]]) -> None:
        self.family, self.numbers = family, numbers

    def collect(self) -> list[object]:
        return [self.family.to_metric(self.numbers)]

    def render(self) -> bytes:
        registry = CollectorRegistry()
        registry.register(self)  # type: ignore[arg-type]
        return render_registry(registry)[1]


SECONDS = st.floats(min_value=0, max_value=1_000) | st.sampled_from([*CALL_BUCKETS_S, *STORE_BUCKETS_S])


@pytest.mark.parametrize("name", ["tollgate_call_seconds", "tollgate_store_seconds"])
@given(observed=st.lists(SECONDS, max_size=20))
@example(observed=list(CALL_BUCKETS_S))
@example(observed=list(STORE_BUCKETS_S))
def test_a_histogram_has_the_page_of_prometheus_clients_own(name: str, observed: list[float]) -> None:
    family = FAMILIES[name]
    labels = tuple("x" for _ in family.labels)
    cells = CellMemory().reserve((name, labels), family.cell_count)
    registry = CollectorRegistry()
    theirs = Histogram(name, family.help, family.labels, buckets=family.buckets, registry=registry)
    bound = theirs.labels(*labels)
    for seconds in observed:
        cells[bisect_left(family.buckets, seconds)] += 1
        cells[-1] += seconds
        bound.observe(seconds)
    expected = render_registry(registry)[1]
    assert Page(family, {labels: cells}).render() == expected


@pytest.mark.parametrize(("name", "kind"), [("tollgate_tokens", Counter), ("tollgate_platform_keys", Gauge)])
@given(values=st.dictionaries(st.tuples(st.text(max_size=5), st.text(max_size=5)), st.floats(0, 1e18)))
def test_counters_and_gauges_have_the_page_of_prometheus_clients_own(
    name: str, kind: type[Counter | Gauge], values: dict[tuple[str, ...], float]
) -> None:
    family = FAMILIES[name]
    registry = CollectorRegistry()
    theirs = kind(name, family.help, family.labels, registry=registry)
    for labels, number in values.items():
        theirs.labels(*labels).inc(number)
    expected = render_registry(registry)[1]
    assert Page(family, {labels: [number] for labels, number in values.items()}).render() == expected


def test_each_family_combines_the_numbers_of_two_workers_as_it_says() -> None:
    combined = {name: family.combine([1.0, 5.0], [2.0, 3.0]) for name, family in FAMILIES.items()}
    highest = {
        *("tollgate_circuits_open", "tollgate_broken_files", "tollgate_build_info"),
        "tollgate_files_differ",
        *("tollgate_workspace_wallet_usd", "tollgate_workspace_month_usd"),
        *("tollgate_reload_failed", "tollgate_settings_age_seconds", "tollgate_store_unavailable"),
        "tollgate_previous_secret_last_use_time_seconds",
    }
    assert {name for name, numbers in combined.items() if numbers == [2.0, 5.0]} == highest
    assert {name for name, numbers in combined.items() if numbers == [1.0, 3.0]} == {
        "tollgate_start_time_seconds"
    }
    others = combined.keys() - highest - {"tollgate_start_time_seconds"}
    assert all(combined[name] == [3.0, 8.0] for name in others)
