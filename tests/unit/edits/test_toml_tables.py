"""Edits of whole tables keep every other line, and comments go with their table."""

import re
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.edits.toml_lines import add_named_table, set_table_values
from addon.edits.toml_tables import insert_table, order_tables, remove_named_table, remove_table

TEXT = """\
name = "Acme"

# Rules of the shop.

# Bills need
# a good model.
[[rules]]
keywords = ["bill"]  # and "bills"?
model = "a"
# That was the first.

[[keys]]
id = "ci"

  # The second.
  [[rules]]
  model = "b"
  keywords = [
    "x",
  ]
[byok.OPENAI]
secret = "env:X"

# No comment of its own.

[[rules]]
model = "c"
keywords = ["z"]"""

FIRST = """\
# Bills need
# a good model.
[[rules]]
keywords = ["bill"]  # and "bills"?
model = "a"
# That was the first.
"""
SECOND = """\
  # The second.
  [[rules]]
  model = "b"
  keywords = [
    "x",
  ]
"""
THIRD = """\
[[rules]]
model = "c"
keywords = ["z"]"""
NEW = '[[rules]]\nkeywords = ["n"]\nmodel = "d"\n'


def replaced(*pairs: tuple[str, str]) -> str:
    text = TEXT
    for number, (old, _) in enumerate(pairs):
        assert text.count(old) == 1
        text = text.replace(old, f"<{number}>")
    for number, (_, new) in enumerate(pairs):
        text = text.replace(f"<{number}>", new)
    return text


def add(index: int) -> str:
    return insert_table(TEXT, "rules", {"keywords": ["n"], "model": "d"}, index)


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda: remove_table(TEXT, "rules", 0), replaced((f"{FIRST}\n", ""))),
        (lambda: remove_table(TEXT, "rules", 1), replaced((SECOND, ""))),
        (lambda: remove_table(TEXT, "rules", 2), replaced((f"\n\n{THIRD}", "\n"))[:-1]),
        (lambda: remove_table(TEXT, "keys", 0), replaced(('[[keys]]\nid = "ci"\n\n', ""))),
        (lambda: add(0), replaced((FIRST, f"{NEW}\n{FIRST}"))),
        (lambda: add(1), replaced((SECOND, f"{NEW}\n{SECOND}"))),
        (lambda: add(3), f"{TEXT}\n\n{NEW}"),
        (lambda: order_tables(TEXT, "rules", [0, 1, 2]), TEXT),
        (lambda: order_tables(TEXT, "rules", [1, 0, 2]), replaced((FIRST, SECOND), (SECOND, FIRST))),
        (
            lambda: order_tables(TEXT, "rules", [2, 0, 1]),
            replaced((FIRST, f"{THIRD}\n"), (SECOND, FIRST), (THIRD, SECOND[:-1])),
        ),
        (
            lambda: remove_named_table(TEXT, "byok", "OPENAI"),
            replaced(('[byok.OPENAI]\nsecret = "env:X"\n', "")),
        ),
        (
            lambda: set_table_values(TEXT, {"secret": "env:Y", "routing": True}, "byok", "OPENAI"),
            replaced(('"env:X"\n', '"env:Y"\nrouting = true\n')),
        ),
        (
            lambda: add_named_table(TEXT, {"secret": "env:Z"}, "byok", "GROQ"),
            f'{TEXT}\n\n[byok.GROQ]\nsecret = "env:Z"\n',
        ),
    ],
)
def test_an_edit_changes_these_lines_only(edit: Callable[[], str], expected: str) -> None:
    assert edit() == expected


def test_a_first_table_goes_to_the_end() -> None:
    assert insert_table('name = "a"', "rules", {"model": "b"}, 0) == 'name = "a"\n\n[[rules]]\nmodel = "b"\n'


@pytest.mark.parametrize(
    "edit",
    [
        lambda: remove_table('rules = [{ model = "a" }]\n', "rules", 0),
        lambda: order_tables('rules = [{ model = "a" }, { model = "b" }]\n', "rules", [1, 0]),
        lambda: insert_table('rules = [{ model = "a" }]\n', "rules", {"model": "b"}, 0),
        lambda: remove_named_table('[byok]\nOPENAI = { secret = "env:X" }\n', "byok", "OPENAI"),
        lambda: set_table_values('byok.OPENAI.secret = "env:X"\n', {"routing": True}, "byok", "OPENAI"),
        lambda: add_named_table('[byok.OPENAI]\nsecret = "env:X"\n', {"routing": True}, "byok", "OPENAI"),
    ],
)
def test_a_table_without_lines_of_its_own_is_refused(edit: Callable[[], str]) -> None:
    with pytest.raises(ValueError, match="can't be edited line by line"):
        edit()


NOTES = st.lists(st.sampled_from(["# a note", "", "   ", "# [[rules]]", "# x = 1", "\t# y"]), max_size=3)
TABLE = st.tuples(
    st.sampled_from(["[[rules]]", "  [[ rules ]]  # here", "[[keys]]", "[other]"]),
    st.lists(st.sampled_from(['"""\n[[rules]]\n# x\n"""', "[ # a\n\n 1 ]", "7 # b"]), max_size=2),
)


@st.composite
def files(draw: st.DrawFn) -> str:
    lines = ["top = 1", *draw(NOTES)]
    others = 0
    for number, (header, values) in enumerate(draw(st.lists(TABLE, max_size=6))):
        others += header == "[other]"
        lines.append(header.replace("other", f"other{others}"))
        lines += [f"number = {number}", *draw(NOTES)]
        for name, value in zip("ab", values, strict=False):
            lines += [f"{name} = {value}", *draw(NOTES)]
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return end.join(lines).replace("\r\n", "\n").replace("\n", end) + draw(st.sampled_from(["", end]))


def rules_of(text: str) -> list[Any]:
    return list(tomllib.loads(text).get("rules", []))


def full_lines(text: str) -> list[str]:
    return [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]


@given(text=files(), data=st.data())
def test_an_order_keeps_all_lines(text: str, data: st.DataObject) -> None:
    rules = rules_of(text)
    order = data.draw(st.permutations(range(len(rules))))
    edited = order_tables(text, "rules", order)
    assert tomllib.loads(edited) == tomllib.loads(text) | (
        {"rules": [rules[index] for index in order]} if rules else {}
    )
    assert sorted(edited.split("\n")) == sorted(text.split("\n")) or not text.endswith("\n")
    assert sorted(full_lines(edited)) == sorted(full_lines(text))
    assert text.endswith("\n") == edited.endswith("\n")
    assert edited.count("\r") == text.count("\r")


@given(text=files(), data=st.data())
def test_a_table_comes_and_goes(text: str, data: st.DataObject) -> None:
    rules = rules_of(text)
    index = data.draw(st.integers(0, len(rules)))
    inserted = insert_table(text, "rules", {"model": "new"}, index)
    expected = [*rules[:index], {"model": "new"}, *rules[index:]]
    assert tomllib.loads(inserted) == tomllib.loads(text) | {"rules": expected}
    added = ["[[rules]]", 'model = "new"']
    assert sorted(full_lines(inserted)) == sorted([*full_lines(text), *added])
    kept = iter(full_lines(inserted))
    assert all(line in kept for line in full_lines(text)), "the lines are in their order"
    if "\r\n" in text:
        assert inserted.count("\n") == inserted.count("\r\n")
    removed = remove_table(inserted, "rules", index)
    assert tomllib.loads(removed) == tomllib.loads(text)


@given(text=files(), data=st.data())
def test_a_removal_keeps_all_other_lines(text: str, data: st.DataObject) -> None:
    rules = rules_of(text)
    if not rules:
        return
    index = data.draw(st.integers(0, len(rules) - 1))
    removed = remove_table(text, "rules", index)
    rest = [*rules[:index], *rules[index + 1 :]]
    before = tomllib.loads(text)
    del before["rules"]
    assert tomllib.loads(removed) == before | ({"rules": rest} if rest else {})
    kept, gone = iter(full_lines(text)), full_lines(text)
    for line in full_lines(removed):
        gone.remove(line)
    assert all(line in kept for line in full_lines(removed))
    assert sum(re.match(r"\s*\[\[ ?rules", line) is not None for line in gone) >= 1
