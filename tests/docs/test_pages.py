"""The pages are consistent: link targets exist, named tests exist, and each module is described."""

import re
from pathlib import Path

import pytest
from rig.configuration import ROOT
from unit.test_architecture import PACKAGES

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
INDEX = ROOT / "docs" / "decisions" / "README.md"
DECISIONS = sorted(set(INDEX.parent.glob("*.md")) - {INDEX})
FACTS = (ROOT / "docs" / "decisions" / "mitmproxy-facts.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes from the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def defined_tests() -> set[str]:
    found = [file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py")]
    return set(re.findall(r"^(?:async )?def (test_\w+)", "\n".join(found), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_an_existing_target(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_context_decision_and_consequences(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    places = [text.find(f"\n**{part}.** ") for part in ("Context", "Decision", "Consequences")]
    assert -1 not in places
    assert places == sorted(places)


def test_the_index_lists_each_decision_once_under_its_heading() -> None:
    listed = re.findall(
        r"^\| \[(.+)\]\(([\w-]+)\.md\) \| \S", INDEX.read_text(encoding="utf-8"), re.MULTILINE
    )
    headings = [page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ") for page in DECISIONS]
    assert sorted(listed) == sorted(zip(headings, (page.stem for page in DECISIONS), strict=True))


def test_every_test_named_with_a_mitmproxy_fact_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", FACTS))
    assert len(named) > 10
    assert named <= defined_tests()


def test_each_numbered_mitmproxy_fact_names_its_tests() -> None:
    rows = dict(re.findall(r"^\| (\d) \| (.*)$", FACTS, re.MULTILINE))
    assert list(rows) == list("123456789")
    source = (ROOT / "tests" / "end_to_end" / "test_mitmproxy_facts.py").read_text(encoding="utf-8")
    for number, name in re.findall(r"^(?:async )?def test_(\d)_(\w+)", source, re.MULTILINE):
        assert f"`test_{number}_{name}`" in rows[number]


def test_the_page_on_architecture_names_every_module() -> None:
    files = [*(ROOT / "addon").glob("*.py"), *(ROOT / "policies").glob("*.py")]
    packages = [f"{init.parent.name}/" for init in (ROOT / "addon").glob("*/__init__.py")]
    names = {file.stem for file in files if file.stem != "__init__"} | set(packages)
    assert {name for name in names if f"`{name}`" not in ARCHITECTURE} == set()


def test_the_packages_are_listed_in_the_order_of_their_imports() -> None:
    section = ARCHITECTURE.split("## The packages\n")[1].split("\n| modules of ")[0]
    listed = re.findall(r"^\| `(\w+)/?` \|", section, re.MULTILINE)
    assert listed == [name.removeprefix("addon.") for name in PACKAGES if name != "addon"]
