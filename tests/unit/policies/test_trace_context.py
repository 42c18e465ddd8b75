"""Trace headers of clients: which are taken, and what is sent on."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.trace_context import MAX_STATE_CHARS, MAX_STATE_MEMBERS, TraceContext, make_span_id

TRACE_ID, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT_FIELD = f"00-{TRACE_ID}-{PARENT}-01"
SPAN = "0123456789abcdef"


@pytest.mark.parametrize(
    ("traceparent", "flags"),
    [
        (f"00-{TRACE_ID}-{PARENT}-00", 0),
        (f"00-{TRACE_ID}-{PARENT}-01", 1),
        (f"00-{TRACE_ID}-{PARENT}-03", 3),
        (f"00-{TRACE_ID}-{PARENT}-ff", 3),
        (f"cc-{TRACE_ID}-{PARENT}-01", 1),
        (f"fe-{TRACE_ID}-{PARENT}-01-more", 1),
        (f"01-{TRACE_ID}-{PARENT}-01-", 1),
    ],
)
def test_a_valid_traceparent_is_taken_with_the_flags_that_are_known(traceparent: str, flags: int) -> None:
    assert TraceContext.parse(traceparent) == TraceContext(TRACE_ID, PARENT, flags)


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "00",
        f"00-{TRACE_ID}-{PARENT}",
        f"00-{TRACE_ID}-{PARENT}-",
        f"00-{TRACE_ID}-{PARENT}-1",
        f"00-{TRACE_ID}-{PARENT}-010",
        f"00-{TRACE_ID}-{PARENT}-01-",
        f"00-{TRACE_ID}-{PARENT}-01-more",
        f"01-{TRACE_ID}-{PARENT}-01more",
        f"01-{TRACE_ID}-{PARENT}-01.more",
        f"ff-{TRACE_ID}-{PARENT}-01",
        f"0-{TRACE_ID}-{PARENT}-01",
        f"0x-{TRACE_ID}-{PARENT}-01",
        f"00-{TRACE_ID.upper()}-{PARENT}-01",
        f"00-{TRACE_ID}-{PARENT.upper()}-01",
        f"CC-{TRACE_ID}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"00-{TRACE_ID[:-1]}-{PARENT}-01",
        f"00-{TRACE_ID}-{PARENT}0-01",
        f"00-{TRACE_ID}-{PARENT}-0g",
        f"00_{TRACE_ID}_{PARENT}_01",
        f" {PARENT_FIELD}",
        f"{PARENT_FIELD}\n",
        f"{PARENT_FIELD}, {PARENT_FIELD}",
        f"00-{'\u0664' * 32}-{PARENT}-01",
    ],
)
def test_a_malformed_traceparent_is_ignored(traceparent: str) -> None:
    assert TraceContext.parse(traceparent, "vendor=1") is None


@pytest.mark.parametrize(
    "state",
    [
        "vendor=1",
        "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
        "a=1 ,\tb=2,,c=x y",
        "tenant@vendor=!~",
        "0_-*/@=1",
        ",".join(f"k{number}=1" for number in range(MAX_STATE_MEMBERS)),
        "a=" + "b" * 256,
    ],
)
def test_a_valid_tracestate_is_sent_on_unchanged(state: str) -> None:
    trace = TraceContext.parse(PARENT_FIELD, state)
    assert trace is not None
    assert trace.sent_fields(SPAN).decode() == (
        f"traceparent: 00-{TRACE_ID}-{SPAN}-01\r\ntracestate: {state}\r\n"
    )


@pytest.mark.parametrize(
    "state",
    [
        "",
        " , ,",
        "vendor",
        "vendor=",
        "=1",
        "Vendor=1",
        "_v=1",
        "a b=1",
        "a=b=c",
        "a=1,\u00e9=2",
        "a=\u00e9",
        "a=1\r\nx: y",
        "a=1\x00",
        "a" * 257 + "=1",
        "a=" + "b" * 257,
        ",".join(f"k{number}=1" for number in range(MAX_STATE_MEMBERS + 1)),
        ",".join(f"k{number}={'v' * 250}" for number in range(MAX_STATE_CHARS // 250 + 1)),
        "," * MAX_STATE_CHARS,
    ],
)
def test_a_malformed_or_large_tracestate_is_not_sent_and_the_trace_goes_on(state: str) -> None:
    assert TraceContext.parse(PARENT_FIELD, state) == TraceContext(TRACE_ID, PARENT, 1)


@given(st.text(), st.text() | st.from_regex(r"[a-z]{1,3}=.{0,5}(,[a-z]=.)?"))
def test_no_text_of_a_client_breaks_the_head_of_a_request(parent: str, state: str) -> None:
    for traceparent in (parent, PARENT_FIELD + parent, PARENT_FIELD):
        if trace := TraceContext.parse(traceparent, state):
            lines = trace.sent_fields(SPAN)
            assert re.fullmatch(rb"(?:[a-z]+: [\t -~]+\r\n){1,2}", lines)


def test_each_attempt_of_each_call_has_its_own_span_id() -> None:
    spans = [make_span_id(call_id, attempt) for call_id in ("req_1", "req_2") for attempt in (1, 2)]
    assert len(set(spans)) == 4
    assert all(re.fullmatch("[0-9a-f]{16}", span) for span in spans)
    assert make_span_id("req_1", 1) == spans[0]
