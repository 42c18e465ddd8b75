"""An edit keeps every other line and comment byte for byte, and changes the meaning of its keys only."""

import tomllib
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.edits.toml_lines import add_table, format_value, set_values

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
TEXT = """\
# the shop
name = "Acme"   # since May
plan = "pro"

# The build server's.
[[keys]]
  id = "ci"
  hash = "sha256:aa"   # made in "May" # twice
  models = [
    "a",  # one
    "b#c",
  ]  # all

# The laptop's.
[[ keys ]]  # second
id = "laptop"
note = \"\"\"
[[keys]]
active = true
\"\"\"
hash = "sha256:bb"

[byok.OPENAI]
secret = "env:X"
# the end"""


def replaced(*pairs: tuple[str, str]) -> str:
    text = TEXT
    for old, new in pairs:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    ("changes", "index", "expected"),
    [
        # A changed value keeps its place and the comment after it.
        ({"hash": "sha256:cc"}, 0, replaced(('"sha256:aa"   #', '"sha256:cc"   #'))),
        ({"models": ["x"]}, 0, replaced(('[\n    "a",  # one\n    "b#c",\n  ]  # all', '["x"]  # all'))),
        # A new key goes below the last one of its table, with its indentation.
        ({"active": False}, 0, replaced(("  ]  # all\n", "  ]  # all\n  active = false\n"))),
        ({"active": False}, 1, replaced(('"sha256:bb"\n', '"sha256:bb"\nactive = false\n'))),
        ({"request_cap": 5, "label": "x"}, 1, replaced(('bb"\n', 'bb"\nrequest_cap = 5\nlabel = "x"\n'))),
        # A removed key takes its line along.
        ({"models": None}, 0, replaced(('  models = [\n    "a",  # one\n    "b#c",\n  ]  # all\n', ""))),
        ({"note": None}, 1, replaced(('note = """\n[[keys]]\nactive = true\n"""\n', ""))),
        ({"gone": None}, 1, TEXT),
        # The same value changes nothing, however it is written.
        ({"models": ("a", "b#c")}, 0, TEXT),
        # The top level.
        ({"plan": "standard"}, None, replaced(('"pro"', '"standard"'))),
        ({"safety_net": True}, None, replaced(('"pro"\n', '"pro"\nsafety_net = true\n'))),
        ({"plan": None, "rpm_override": 6}, None, replaced(('plan = "pro"\n', "rpm_override = 6\n"))),
    ],
)
def test_an_edit_changes_these_lines_only(changes: dict[str, Any], index: int | None, expected: str) -> None:
    where: tuple[Any, ...] = () if index is None else ("keys", index)
    assert set_values(TEXT, changes, *where) == expected


def test_a_key_goes_above_the_first_table_of_a_file_without_any() -> None:
    assert set_values("# a\n[x]\ny = 1\n", {"name": "a"}) == 'name = "a"\n# a\n[x]\ny = 1\n'
    assert set_values("", {"name": "a"}) == 'name = "a"\n'
    assert set_values("[[keys]]", {"id": "a"}, "keys", 0) == '[[keys]]\nid = "a"\n'


@pytest.mark.parametrize(
    "text",
    [
        'keys = [{ id = "ci" }]\n',
        'keys = [\n{ id = "ci" },\n]\n',
        # A key of a table in dotted form has no line of its own.
        '[[keys]]\nid.x = "ci"\n',
    ],
)
def test_a_text_that_has_no_line_for_a_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="can't be edited line by line"):
        set_values(text, {"id": "x"}, "keys", 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (7, "7"),
        ("a", '"a"'),
        ('"\\\n\x7f\x00é', r'"\"\\\n\u007f\u0000é"'),
        (["a", "b*"], '["a", "b*"]'),
        ((), "[]"),
        ([80, 95], "[80, 95]"),
        (NOON, "2026-11-22T12:00:00Z"),
    ],
)
def test_a_value_is_written_as_toml(value: Any, text: str) -> None:
    assert format_value(value) == text
    assert tomllib.loads(f"x = {text}")["x"] == (list(value) if isinstance(value, tuple) else value)


VALUES = st.one_of(
    st.booleans(),
    st.integers(-(10**9), 10**9),
    st.text(max_size=6),
    st.lists(st.text("a\n#\"'\\ ,]", max_size=4), max_size=3),
    st.just(NOON),
)
NOTES = st.lists(
    st.sampled_from(["# a note", "", "   ", "# [[keys]]", "# active = true", "# \u2028 x", "\t"]), max_size=2
)
NAMES = ("id", "active", "models", "label")
WRITTEN = st.one_of(
    VALUES.map(format_value),
    st.sampled_from(
        [
            '"""\n[[keys]]\nid = 1 # x\n"""',
            "'#'",
            "[ # a\n  1,\n\n  # ]\n]",
            "{ id = 1 }",
            "0x_1".replace("_", ""),
        ]
    ),
)
LINES = st.dictionaries(
    st.sampled_from(NAMES), st.tuples(WRITTEN, st.sampled_from(["", "  # note", " #=["]), NOTES), max_size=4
)


@st.composite
def files(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Return a file with some keys, and its lines in pieces that belong to one statement each."""
    pieces = [*draw(NOTES)]
    for header in ("", *(["[[keys]]"] * draw(st.integers(1, 3))), "[[rules]]"):
        pieces += [header] if header else []
        for name, (written, note, notes) in draw(LINES).items():
            indentation = draw(st.sampled_from(["", "  "]))
            pieces += [f"{indentation}{name} = {written}{note}", *notes]
    line_end = draw(st.sampled_from(["\n", "\r\n"]))
    pieces = [piece.replace("\n", line_end) for piece in pieces]
    return line_end.join(pieces) + draw(st.sampled_from(["", line_end])), pieces


@given(
    made=files(),
    place=st.integers(-1, 5),
    changes=st.dictionaries(st.sampled_from(NAMES), st.none() | VALUES, min_size=1, max_size=3),
)
def test_edits_keep_every_other_line_and_meaning(
    made: tuple[str, list[str]], place: int, changes: dict[str, Any]
) -> None:
    text, pieces = made
    before = tomllib.loads(text)
    count = len(before["keys"])
    index = place % count if place >= 0 else None
    where: tuple[Any, ...] = () if index is None else ("keys", index)
    edited = set_values(text, changes, *where)

    expected = tomllib.loads(text)
    table = expected if index is None else expected["keys"][index]
    for name, value in changes.items():
        table.pop(name, None)
        if value is not None:
            table[name] = tomllib.loads(f"x = {format_value(value)}")["x"]
    assert tomllib.loads(edited) == expected
    # All lines of other keys are there, in their order, and so is every comment on a line of its own.
    kept = [piece for piece in pieces if piece.strip().partition(" ")[0] not in changes]
    rest = edited
    for piece in filter(None, kept):
        _, found, rest = rest.partition(piece)
        assert found == piece
    if "\r\n" in text:
        assert edited.count("\n") == edited.count("\r\n")


@given(made=files(), values=st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1))
def test_an_added_table_goes_to_the_end(made: tuple[str, list[str]], values: dict[str, Any]) -> None:
    text, _ = made
    added = add_table(text, "keys", values)
    assert added.startswith(text.rstrip())
    before, after = tomllib.loads(text), tomllib.loads(added)
    assert after["keys"][:-1] == before["keys"]
    assert after["keys"][-1] == {
        name: tomllib.loads(f"x = {format_value(one)}")["x"] for name, one in values.items()
    }
    assert after | {"keys": []} == before | {"keys": []}


def test_a_long_list_is_parsed_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    parse, parsed = tomllib.loads, []

    def count(text: str) -> dict[str, Any]:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(tomllib, "loads", count)
    listed = "".join(f'  "word {number}",  # {number}\n' for number in range(2000))
    text = f'words = [\n{listed}]\nplan = "pro"\n'
    assert set_values(text, {"plan": "standard"}) == text.replace("pro", "standard")
    assert len(parsed) < 20


@pytest.mark.parametrize(
    "before",
    [
        'a = """\n[x]\n"quoted" \\\n"""',
        "a = '''\n]\n# x\n'''",
        "a = [\n[1],\n[2,\n3]\n]",
        'a = [ # ]\n"]",\n"1" ]',
    ],
)
def test_a_statement_of_several_lines_is_found_as_a_whole(before: str) -> None:
    text = f"{before}\nb = 1\n"
    assert set_values(text, {"a": 2, "b": 3}) == "a = 2\nb = 3\n"


HOSTILE = (
    "alert_at_percent = [\n" + "# ] }\n" * 1_000 + "80]  # the end\n" + "[[keys]]\n" + "# ]\n" * 1_000,
    'name = "' + "#" * 20_000 + '"  # the name\nalert_at_percent = [80]\n',
    'default_model = """\n' + "# ]\n" * 1_000 + '"""\nalert_at_percent = [80]',
)


@pytest.mark.parametrize("text", HOSTILE)
def test_an_edit_parses_each_line_only_a_few_times(text: str, monkeypatch: pytest.MonkeyPatch):
    read = 0

    def count(text: str) -> dict[str, Any]:
        nonlocal read
        read += len(text)
        return tomllib.loads(text)

    monkeypatch.setattr("addon.edits.toml_lines.load_toml", count)
    edited = set_values(text, {"alert_at_percent": [50], "name": "x"})
    assert tomllib.loads(edited)["alert_at_percent"] == [50]
    assert edited.count("# the ") == text.count("# the ")
    assert read < 8 * len(text) + 1_000
