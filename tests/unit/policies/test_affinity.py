"""Which place is for which conversation: by weight, and where a place is lost only its share moves."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.affinity import MAX_CHARS, MAX_MESSAGES, distance, find_affinity

WEIGHTS = {b"A/m": 3, b"B/m": 1, b"C/m": 1}


def messages(*pairs: tuple[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content} for role, content in pairs]}


def chosen(affinity: bytes, weights: dict[bytes, int]) -> bytes:
    return min(weights, key=lambda name: distance(affinity, name, weights[name]))


def conversations(count: int) -> list[bytes]:
    return [find_affinity("acme", messages(("user", f"question {n}")), None) for n in range(count)]


def test_shares_follow_the_weights_within_two_percent_of_ten_thousand_conversations() -> None:
    shares = Counter(chosen(one, WEIGHTS) for one in conversations(10_000))
    for name, weight in WEIGHTS.items():
        assert abs(shares[name] / 10_000 - weight / 5) < 0.02


@pytest.mark.parametrize("lost", WEIGHTS)
def test_when_a_place_goes_only_its_conversations_move(lost: bytes) -> None:
    left = {name: weight for name, weight in WEIGHTS.items() if name != lost}
    for one in conversations(2_000):
        before = chosen(one, WEIGHTS)
        assert chosen(one, left) == before or before == lost


def test_a_place_without_weight_is_the_last() -> None:
    assert all(chosen(one, {b"A": 1, b"B": 0}) == b"A" for one in conversations(500))


@given(st.lists(st.tuples(st.sampled_from(["assistant", "user", "tool"]), st.text(max_size=20)), max_size=6))
def test_a_conversation_keeps_its_affinity_as_it_grows(turns: list[tuple[str, str]]) -> None:
    begun = [("system", "Be brief."), ("user", "What is a sidecar?")]
    first = find_affinity("acme", messages(*begun), None)
    assert find_affinity("acme", messages(*begun, *turns), None) == first


@pytest.mark.parametrize(
    ("workspace", "pairs", "cache_key"),
    [
        ("globex", [("system", "Be brief."), ("user", "Hi")], None),
        ("acme", [("system", "Be long."), ("user", "Hi")], None),
        ("acme", [("system", "Be brief."), ("user", [{"type": "text", "text": "Ho"}])], None),
        ("acme", [("system", "Be brief."), ("user", "Hi")], "run-7"),
    ],
)
def test_another_beginning_workspace_or_cache_key_is_another_conversation(
    workspace: str, pairs: list[tuple[str, Any]], cache_key: str | None
) -> None:
    usual = find_affinity("acme", messages(("system", "Be brief."), ("user", "Hi")), None)
    assert find_affinity(workspace, messages(*pairs), cache_key) != usual


def test_what_is_read_of_a_request_has_a_bound_in_all() -> None:
    system = [("system", "x" * 1_000)] * MAX_MESSAGES
    usual = find_affinity("acme", messages(*system), None)
    assert find_affinity("acme", messages(*system, ("user", "Hi")), None) == usual
    assert find_affinity("acme", messages(*system[: MAX_CHARS // 1_000]), None) == usual
    assert find_affinity("acme", messages(*system[1 : MAX_CHARS // 1_000]), None) != usual


def test_a_cache_key_decides_alone() -> None:
    first, second = (find_affinity("acme", messages(("user", text)), "run-7") for text in ("a", "b"))
    assert first == second


def test_text_in_parts_is_the_same_text_and_broken_text_is_no_fault() -> None:
    parts = [{"type": "text", "text": "Hi"}]
    assert find_affinity("acme", messages(("user", parts)), None) == find_affinity(
        "acme", messages(("user", "Hi")), None
    )
    assert find_affinity("acme", messages(("user", "\ud800")), "\udfff")
