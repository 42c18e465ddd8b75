"""docs/closing-a-month.md has every cause, every format and every column of a mapping, and its example is true."""

import re

from rig.configuration import ROOT

from addon.reconcile.causes import CAUSES
from addon.reconcile.formats import FORMATS
from addon.reconcile.mapped_export import COLUMNS, parse_mapping

PAGE = (ROOT / "docs" / "closing-a-month.md").read_text(encoding="utf-8")


def rows_below(heading: str) -> list[str]:
    """Return the first cells of the table below a heading."""
    section = PAGE.split(f"# {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| (?!column|cause|format|---)([^|]+) \|", section, re.MULTILINE)


def test_the_causes_are_listed_in_their_order() -> None:
    assert rows_below("The causes") == [f"`{cause}`" for cause in CAUSES]


def test_every_format_has_its_place() -> None:
    listed = ", ".join(rows_below("Where the exports are"))
    assert {one.name for one in FORMATS} == {
        name for name in re.findall(r"[A-Z][\w ]+ \((?:CSV|JSON)\)", listed) if name
    }


def test_every_column_of_a_mapping_is_explained() -> None:
    cells = ", ".join(rows_below("Other vendors"))
    assert sorted(re.findall(r"`(\w+)`", cells)) == sorted(COLUMNS)


def test_the_mapping_in_the_example_is_valid() -> None:
    [text] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert parse_mapping(text).kinds["output_tokens"] == "output"
