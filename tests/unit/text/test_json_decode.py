"""The decoder of small bodies reads and refuses exactly what the decoder of all bodies does."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from addon.text.json_decode import decode_large_object, decode_object
from addon.text.json_scan import LARGE_STRING_BYTES, MAX_DEPTH
from policies.refusal import Refusal

NUMBERS = st.sampled_from(
    ["0", "-0", "-0.0", "1e400", "-1e400", "1e-400", "0.10000000000000000001", "9" * 400, "9" * 5_000, "1E5", "01",
     "NaN", "-Infinity", "1.", ".5", "+1", "123456789012345678901234567890", "1.7976931348623159e308", "2e-324"]
)  # fmt: skip
STRINGS = st.text(max_size=4).map(json.dumps) | st.sampled_from(
    ['"a"', '"\\ud800"', '"\\udc00\\ud800"', '"\\ud83c\\udf89"', '"\\u0000"', '"\\\\"', '"\\""', '"\\\\\\""', '"a\\',
     '"é"', '"[{:,"', '"\t"', "''"]
)  # fmt: skip


def _containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.lists(st.tuples(st.sampled_from(['"a"', '"b"', '"\\u0061"', '"é"']), inner), max_size=3)
    objects = members.map(lambda found: "{" + ",".join(f"{key}:{value}" for key, value in found) + "}")
    return objects | st.lists(inner, max_size=3).map(lambda found: "[ " + ", ".join(found) + "]")


TEXTS = st.recursive(NUMBERS | STRINGS | st.sampled_from(["null", "true", "false", "nul"]), _containers)
BYTES = st.sampled_from(
    [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0", b'"', b"\\", b":", b"{", b"}", b"\xef\xbb\xbf", b" "]
)


def nested(levels: int) -> bytes:
    return b'{"x":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def outcome(decode: Any, body: bytes) -> str:
    """Return the decoded object, or the refusal, with each type and digit."""
    try:
        return repr(decode(body))
    except Refusal as refusal:
        return f"{refusal.code}: {refusal.message}"


@given(text=TEXTS, at=st.integers(0, 60), cut=st.integers(0, 2), put=BYTES | st.just(b""))
@example(text='{"a":1,"a":1}', at=0, cut=0, put=b"")
@example(text='{"a":1,"b":{"a":1,"\\u0061":1}}', at=0, cut=0, put=b"")
def test_small_bodies_are_read_and_refused_as_all_bodies(text: str, at: int, cut: int, put: bytes) -> None:
    body = text.encode()
    body = body[:at] + put + body[at + cut :]
    for one in (body, b'{"x":' + body + b"}"):
        found = outcome(lambda text: decode_large_object(text)[0], one)
        assert found == outcome(decode_object, one)


@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 1, 2_000])
def test_the_depth_of_small_bodies_is_bounded_as_that_of_all(levels: int) -> None:
    found = outcome(lambda text: decode_large_object(text)[0], nested(levels))
    assert found == outcome(decode_object, nested(levels))
    assert ("deeper" in found) == (levels > MAX_DEPTH)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_body_around_the_largest_small_one_is_read_alike(more: int) -> None:
    filler = b'{"x":"' + b"y" * (LARGE_STRING_BYTES + more - 8) + b'"}'
    assert len(filler) == LARGE_STRING_BYTES + more
    assert decode_large_object(filler)[0] == decode_object(filler)
