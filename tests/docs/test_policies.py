"""docs/policies.md is right about the data and the rights of a policy, and its examples work as described."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from rig.configuration import ROOT
from rig.reviewed import reviewed

from addon.settings.policy_modules import PolicyModule, compile_policy
from addon.text.errors import REFUSALS
from policies.refusal import Refusal
from policies.review import REFUSAL_CODES, ReviewedCall, ReviewedMessage, review

PAGE = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "docs" / "examples" / "policies").glob("*.py"))


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without its two head lines."""
    _, _, rest = PAGE.partition(f"\n### {heading}\n")
    lines = [line for line in re.split(r"\n##", rest)[0].splitlines() if line.startswith("| `")]
    return [re.split(r"\s*\|\s*", line.strip("| ")) for line in lines]


def example(name: str) -> PolicyModule:
    file = ROOT / "docs" / "examples" / "policies" / f"{name}.py"
    return compile_policy(name, file.read_bytes(), file)


def refusal_of(name: str, call: ReviewedCall) -> Refusal | None:
    try:
        review(call, [example(name)])
    except Refusal as refusal:
        return refusal
    return None


def test_the_page_lists_what_a_policy_sees_in_order() -> None:
    listed = [row[0].strip("`") for row in rows("What it sees")]
    assert listed == [field.name for field in fields(ReviewedCall)]


def test_the_page_lists_the_codes_of_a_refusal_with_their_status() -> None:
    listed = [(row[0].strip("`"), int(row[1])) for row in rows("Codes of a refusal")]
    assert listed == [(code, REFUSALS[code][0]) for code in REFUSAL_CODES]


def test_the_imports_that_the_page_allows_work() -> None:
    imports = re.findall(r"^\| `(from policies\.[^`]+)` \|", PAGE, re.MULTILINE)
    assert len(imports) == 3
    compile_policy("mine", "\n".join([*imports, "def review(call): ..."]).encode(), Path("mine.py"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_each_example_equals_its_file(file: Path) -> None:
    assert f"```python\n{file.read_text(encoding='utf-8')}```" in PAGE
    assert f'"{file.stem}"' in PAGE


@pytest.mark.parametrize(
    ("key_id", "slug", "refused"),
    [
        ("ci", "gpt-4o-mini", False),
        ("ci", "claude-haiku-4-5", True),
        ("support", "claude-haiku-4-5", False),
        ("support", "gpt-4.1", True),
        ("laptop", "gpt-4.1", False),
    ],
)
@pytest.mark.parametrize("is_fallback", [False, True])
def test_house_rules_limit_a_key_to_its_models(
    key_id: str, slug: str, refused: bool, is_fallback: bool
) -> None:
    call = reviewed(key_id=key_id, model_slug=slug, is_fallback=is_fallback)
    refusal = refusal_of("house_rules", call)
    assert (refusal and refusal.code) == ("byok_required" if refused else None)
    assert refusal_of("house_rules", reviewed(workspace="beta", key_id=key_id, model_slug=slug)) is None


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("what is project falcon?", True),
        ("PROJECT\nFALCON", True),
        ("Streng GEHEIM!", True),
        ("a falcon in a project", False),
        ("project falcons", False),
        ("Geheimnis", False),
    ],
)
def test_house_rules_refuse_messages_with_a_banned_word(text: str, refused: bool) -> None:
    in_the_past = (ReviewedMessage("assistant", text), ReviewedMessage("user", "go on"))
    for call in (reviewed(text), reviewed(messages=in_the_past)):
        refusal = refusal_of("house_rules", call)
        assert (refusal and refusal.code) == ("validation_failed" if refused else None)


@pytest.mark.parametrize(
    ("key_id", "choices", "cap"),
    [("trial", 1, 256), ("trial", 3, 85), ("trial", 999, 1), ("ci", 1, 2000), ("laptop", 1, None)],
)
def test_short_answers_lowers_the_cap_of_all_choices_together(
    key_id: str, choices: int, cap: int | None
) -> None:
    assert review(reviewed(key_id=key_id, choices=choices), [example("short_answers")]) == cap
