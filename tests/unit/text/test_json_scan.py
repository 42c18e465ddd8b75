"""JSON text is measured outside its strings, before it is parsed."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addon.text import json_scan
from addon.text.json_scan import MAX_DEPTH, MAX_VALUES, Scan, TooDeepError, TooManyValuesError, scan

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.text(alphabet='"\\/,:[]{}aé😀\n', max_size=200),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pieces and long strings so short that examples have several."""
    monkeypatch.setattr(json_scan, "PIECE_BYTES", 17)
    monkeypatch.setattr(json_scan, "LARGE_STRING_BYTES", 40)


def members_of(value: object) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(members_of, value.values()))
    return sum(map(members_of, value)) if isinstance(value, list) else 0


@pytest.mark.usefixtures("small")
@settings(deadline=None)
@given(value=VALUES, ascii_only=st.booleans(), indent=st.sampled_from([None, 1]))
def test_members_outside_strings_are_counted(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    found = scan(text)
    assert found.members == members_of(value)
    for start, end in found.large:
        assert isinstance(json.loads(text[start - 1 : end + 1]), str)


def test_values_are_bounded_and_a_prompt_of_commas_is_one() -> None:
    assert scan(b"[" + b"1," * (MAX_VALUES - 3) + b"1]") == Scan()
    with pytest.raises(TooManyValuesError):
        scan(b"[" + b"1," * (MAX_VALUES - 1) + b"1]")
    with pytest.raises(TooManyValuesError):
        scan(b'{"messages":[' + b'{"role":"user","content":"x"},' * 1_000_000)
    assert scan(b'["' + b",:[{" * 1_000_000 + b'"]').members == 0


def test_depth_is_bounded_over_all_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_scan, "PIECE_BYTES", 7)
    half = MAX_DEPTH // 2
    scan(b"[" * half + b'{"a":' * half + b"1" + b"}" * half + b"]" * half)
    scan((b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b",") * 3)
    for text in (
        b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
        b"[" * (MAX_DEPTH + 1),
        b"[" * half + b"[]," * 100 + b"[" * (half + 1) + b"]" * (half + 1) + b"]" * half,
    ):
        with pytest.raises(TooDeepError):
            scan(text)


@pytest.mark.parametrize("at", [0, 5, 6, 7, 13])
def test_invalid_utf_8_is_found_at_its_offset(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_scan, "PIECE_BYTES", 7)
    with pytest.raises(UnicodeDecodeError) as caught:
        scan(b"x" * at + b"\xff" + b"x" * 10)
    assert caught.value.start == at
    with pytest.raises(UnicodeDecodeError) as caught:
        scan(b"x" * at + "é".encode()[:1])
    assert caught.value.start == at
