"""The owner of a key's hash, as a table, and the properties of any claims by two or more files."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.key_claims import settle_claims

Texts = Mapping[str, tuple[str, ...]]

# claims of the texts, claims of the last good texts, workspaces that give way, refused (workspace, hash)
TABLE: dict[str, tuple[Texts, Texts, set[str], set[tuple[str, str]]]] = {
    "no other claim": ({"a": ("x",), "b": ("y",)}, {}, set(), set()),
    "two at a first start": ({"a": ("x",), "b": ("x",)}, {}, set(), {("a", "x"), ("b", "x")}),
    "one had it": ({"a": ("x",), "b": ("x", "y")}, {"a": ("x",), "b": ("y",)}, {"b"}, set()),
    "one had it, the other is new": ({"a": ("x",), "b": ("x",)}, {"a": ("x",)}, set(), {("b", "x")}),
    "moved": ({"a": (), "b": ("x",)}, {"a": ("x",), "b": ()}, set(), set()),
    "swapped": ({"a": ("y",), "b": ("x",)}, {"a": ("x",), "b": ("y",)}, set(), set()),
    "one gives way and takes back": (
        {"a": ("x", "y"), "b": ("x",)},
        {"a": ("x",), "b": ("y",)},
        {"a", "b"},
        set(),
    ),
    "both had it": ({"a": ("x",), "b": ("x",)}, {"a": ("x",), "b": ("x",)}, set(), {("a", "x"), ("b", "x")}),
    "three": (
        {"a": ("x",), "b": ("x",), "c": ("x", "z")},
        {"b": ("x",), "c": ("z",)},
        {"c"},
        {("a", "x")},
    ),
}


@pytest.mark.parametrize(("claims", "had", "gave_way", "refused"), TABLE.values(), ids=TABLE)
def test_who_gets_a_hash(
    claims: Texts, had: Texts, gave_way: set[str], refused: set[tuple[str, str]]
) -> None:
    settled = settle_claims(claims, had.get)
    assert settled.gave_way.keys() == gave_way
    assert settled.refused.keys() == refused


TEXTS = st.dictionaries(st.sampled_from("abcd"), st.lists(st.sampled_from("uvxyz"), unique=True).map(tuple))


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_no_hash_has_two_owners_and_none_is_taken_from_its_owner(claims: Texts, had: Texts) -> None:
    settled = settle_claims(claims, had.get)
    owners: dict[str, list[str]] = {}
    for name, hashes in claims.items():
        for key_hash in had[name] if name in settled.gave_way else hashes:
            if (name, key_hash) not in settled.refused:
                owners.setdefault(key_hash, []).append(name)
    assert all(len(names) == 1 for names in owners.values())
    for name, hashes in claims.items():
        for key_hash in set(hashes) & set(had.get(name, ())):
            if [one for one in claims if key_hash in had.get(one, ())] == [name]:
                assert owners.get(key_hash) == [name]
