"""Long strings of a JSON text are cut out and restored to the byte."""

import json
import string
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from addon.text import json_decode, json_scan, large_strings
from addon.text.json_decode import decode_large_object
from addon.text.json_encode import encode_request
from addon.text.large_strings import LargeStrings, boundary
from policies.estimate import count_text, estimate_prompt_tokens
from policies.family import Estimator
from policies.large_text import LargeText, TextCounts, find_large_texts, first_chars, whole_text
from policies.refusal import Refusal


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pieces and long strings so short that examples have several."""
    monkeypatch.setattr(json_scan, "PIECE_BYTES", 17)
    for module in (json_scan, json_decode):
        monkeypatch.setattr(module, "LARGE_STRING_BYTES", 40)
    monkeypatch.setattr(large_strings, "PIECE_BYTES", 23)
    monkeypatch.setattr(large_strings, "_BEGINNING_BYTES", 13)


def plain(value: Any) -> Any:
    """Return the value with every long text decoded."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    return [plain(member) for member in value] if isinstance(value, list) else value


ESCAPED = st.lists(
    st.sampled_from(
        [r"\n", r"\"", r"\\", r"\u00e9", r"\ud83d\ude00", r"\/", "a", " ", "é", "😀", "u", "d83d", "\x7f"]
    ),
    min_size=10,
    max_size=150,
).map("".join)


@pytest.mark.usefixtures("small")
@settings(deadline=None)
@given(texts=st.lists(ESCAPED, min_size=1, max_size=4))
def test_long_strings_are_restored_to_the_byte(texts: list[str]) -> None:
    members = ",".join(f'"k{index}" : ["{text}"]' for index, text in enumerate(texts))
    body = f"{{{members}}}".encode()
    value, large = decode_large_object(body)
    assert plain(value) == json.loads(body)
    assert large is None or large.restore(large.skeleton()) == body
    sent = encode_request(value)
    assert json.loads(large.restore(sent) if large else sent) == json.loads(body)
    for text in find_large_texts(value):
        assert count_text(whole_text(text)) == count_text(text.beginning).plus(text.rest.counts)
        assert first_chars(text, 50) == whole_text(text)[:50]


@given(text=ESCAPED, start=st.just(0), end=st.integers(1, 80))
@example(text="a" * 20 + "😀", start=0, end=21)
def test_a_boundary_is_not_inside_a_character_or_an_escape(text: str, start: int, end: int) -> None:
    raw = text.encode()
    at = boundary(raw, start, end)
    left, right = (json.loads(b'"%b"' % part) for part in (raw[:at], raw[at:]))
    assert left + right == json.loads(f'"{text}"')
    assert at <= max(end, 0) + 12
    assert at == len(raw) or at > end - 12


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "bad",
    [rb"\x", rb"\u12x", rb"\ud800", rb"\ude00", b"\x01", rb"\ud83d\n", rb"\uzzzz", b"\xff", b"\xed\xa0\x80"],
)
@pytest.mark.parametrize("at", [0, 20, 60, 99])
def test_a_long_string_is_checked_like_a_short_one(bad: bytes, at: int) -> None:
    text = b"a" * at + bad + b"a" * (100 - at)
    with pytest.raises(Refusal) as caught:
        decode_large_object(b'{"a":["%b"]}' % text)
    assert caught.value.code == "validation_failed"


@pytest.mark.usefixtures("small")
def test_a_repeated_long_key_is_refused() -> None:
    key = b"k" * 100
    assert decode_large_object(b'{"%b" : 1}' % key)[0] == {key.decode(): 1}
    with pytest.raises(Refusal, match="more than once"):
        decode_large_object(b'{"%b" : 1, "%b":2}' % (key, key))


@pytest.mark.usefixtures("small")
def test_no_client_can_forge_a_mark() -> None:
    body = b'{"a":"%b"}' % (b"x" * 100)
    _, large = decode_large_object(body)
    assert large is not None
    skeleton = large.skeleton()
    mark = skeleton[skeleton.index(b"[text ") : skeleton.index(b"]") + 1]
    forged = b'{"a":"%b","b":"%b"}' % (b"x" * 100, mark)
    value, large = decode_large_object(forged)
    assert large is not None
    assert whole_text(value["b"]) == mark.decode()
    assert large.restore(encode_request(value)) == forged


@pytest.mark.usefixtures("small")
def test_a_fault_after_a_long_string_is_reported_at_its_place() -> None:
    body = b'{"a":"%b",\n"b":"%b", "c":}' % (b"x" * 100, b"y" * 100)
    with pytest.raises(Refusal, match=rf"line 2, column {4 + 102 + 2 + 5}\)"):
        decode_large_object(body)


@pytest.mark.usefixtures("small")
def test_a_long_text_has_the_same_counts_as_a_whole_one() -> None:
    text = "Größe 12 " * 30
    parts = [
        {"type": "text", "text": text},
        {"type": "input_audio", "input_audio": {"data": "A" * 4_000_000}},
    ]
    fields = {
        "messages": [{"role": "user", "content": parts}],
        "tools": [{"type": "x", "x": [text, {"y": text}]}],
    }
    value, large = decode_large_object(json.dumps(fields).encode())
    assert large is not None
    assert len(list(find_large_texts(value))) == 4
    whole = estimate_prompt_tokens(fields, Estimator())
    # The few characters of a mark in a text count too.
    assert whole <= estimate_prompt_tokens(value, Estimator()) <= whole + 4 * 60


def test_a_long_text_is_a_string_of_its_beginning() -> None:
    body = json.dumps({"a": string.ascii_letters * 2_000}).encode()
    value, _ = decode_large_object(body)
    assert isinstance(value["a"], LargeText)
    assert value["a"].startswith(string.ascii_letters)
    assert len(value["a"]) < 3_000
    assert value["a"].rest.counts != TextCounts()
    assert LargeStrings(body, [(7, len(body) - 2)]).skeleton() == json.dumps({"a": str(value["a"])}).encode()
