"""Whatever a vendor and the ledger say, the amounts of the causes sum to the difference."""

from hypothesis import given
from hypothesis import strategies as st
from rig.reconciled import (
    call,
)

from addon.reconcile.causes import (
    ROUNDING,
    explain_group,
    value_of,
)
from addon.reconcile.export_line import KINDS, ExportLine, Tokens
from addon.reconcile.ledger_call import (
    CallSums,
    LedgerCall,
    ModelPrices,
)
from addon.reconcile.vendor_sums import VendorSums

AMOUNTS = st.integers(-(10**12), 10**12)


COUNT = st.integers(0, 10**9)


TOKENS = st.builds(Tokens, COUNT, COUNT, COUNT, COUNT)


LINES = st.builds(
    ExportLine,
    st.just("2026-10-14"),
    tier=st.sampled_from([None, "flex", "long context"]),
    kind=st.sampled_from([None, *KINDS]),
    tokens=st.none() | TOKENS,
    cost_nanousd=st.none() | AMOUNTS,
    requests=st.none() | st.integers(0, 50),
    rounding_nanousd=st.sampled_from([1, 500, 5_000_000]),
    is_tool=st.booleans(),
    splits_input=st.booleans(),
)


CALLS = st.builds(
    call,
    st.just("gpt-5.4"),
    TOKENS,
    st.integers(0, 10**12),
    usage_source=st.sampled_from(["provider", "estimated", "none"]),
    error_code=st.sampled_from([None, "interrupted", "timeout"]),
    status=st.sampled_from([200, 499, 504]),
    resends=st.integers(0, 1),
    reported_nanousd=st.none() | st.integers(0, 10**12),
)


PRICED = st.builds(ModelPrices, TOKENS, others=st.lists(TOKENS, max_size=2))


@given(st.lists(LINES, max_size=5), st.lists(CALLS, max_size=4), st.none() | PRICED, st.integers(0, 10**12))
def test_the_causes_sum_to_the_difference(
    lines: list[ExportLine], calls: list[LedgerCall], prices: ModelPrices | None, largest: int
) -> None:
    theirs, ours = VendorSums(list(lines)), CallSums()
    for one in calls:
        ours.add(one, prices)
    ours.crossing_nanousd, ours.arriving_nanousd = largest // 2, largest // 3
    causes = explain_group(theirs, ours, prices, largest)
    assert sum(causes.values()) == value_of(theirs, ours, prices) - ours.cost_nanousd
    assert 0 not in causes.values()
    slack = theirs.rounding_nanousd + 4 * (len(lines) + len(calls) + 1)
    assert abs(causes.get(ROUNDING, 0)) <= slack * (len(lines) + 1)
