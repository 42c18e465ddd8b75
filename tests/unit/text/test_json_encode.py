"""The encoders of JSON that is sent: the text reads back as the same values, to the digit."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from addon.text.json_encode import encode_json, encode_request
from policies.large_text import LargeText, TextCounts, TextRest

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)


@given(value=VALUES)
@example(value=[-0.0, 1e22, 5e-324, 1.7976931348623157e308, 0.1, 1.0, 10**30, 2**64])
@example(value={"a": '\0\x1f\x7f\u2028"\\/ é 日本 🎉'})
def test_a_request_reads_back_as_the_same_values(value: Any) -> None:
    assert repr(json.loads(encode_request(value))) == repr(value)
    assert repr(json.loads(encode_json(value))) == repr(value)


def test_a_request_with_a_large_text_is_encoded_with_its_mark() -> None:
    large = LargeText.of("beginning ", "[mark]", TextRest(TextCounts(), lambda: iter(())))
    assert json.loads(encode_request({"a": [large, "é"]})) == {"a": ["beginning [mark]", "é"]}


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_numbers_that_json_does_not_have_are_not_encoded(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode_json([value])
