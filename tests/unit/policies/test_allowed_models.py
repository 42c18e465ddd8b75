"""The patterns of the models that a key may use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.allowed_models import AllowedModels, fold_slug

SLUGS = st.text("aB-./1", min_size=1, max_size=8)
PATTERNS = st.lists(
    st.one_of(SLUGS, SLUGS.map(lambda slug: slug + "*"), st.just("*")), min_size=1, max_size=4
)


@pytest.mark.parametrize(
    ("patterns", "slug", "allowed"),
    [
        (["gpt-4o"], "gpt-4o", True),
        (["gpt-4o"], "gpt-4o-mini", False),
        (["gpt-4o*"], "gpt-4o-mini", True),
        (["gpt-4o*"], "gpt-4o", True),
        (["gpt-4o*"], "gpt-4", False),
        (["gpt-4o*", "claude"], "claude", True),
        (["GPT-4O*"], "gpt-4o-mini", True),
        (["gpt-4o*"], "GPT-4o-mini", True),
        (["*"], "anything/at:all", True),
        (["openai/*"], "OpenAI/ft:gpt-4o:acme", True),
        (["openai/*"], "openai", False),
        # A name outside the catalog is not the slug that it resembles.
        (["gpt-4o*"], "openai/gpt-4o", False),
        # Nothing but the last character is special.
        (["gpt.4o"], "gpt-4o", False),
        (["gpt-[45]*"], "gpt-4", False),
        # Unicode folds the kelvin sign to k.
        (["kimi"], "\u212aimi", False),
    ],
)
def test_a_pattern_allows(patterns: list[str], slug: str, allowed: bool) -> None:
    assert AllowedModels(tuple(patterns)).allows(slug) is allowed


@given(patterns=PATTERNS, slug=SLUGS)
def test_any_pattern_that_matches_is_enough(patterns: list[str], slug: str) -> None:
    def matches(pattern: str) -> bool:
        one, name = fold_slug(pattern), fold_slug(slug)
        return name[: len(one) - 1] == one[:-1] if one.endswith("*") else name == one

    assert AllowedModels(tuple(patterns)).allows(slug) is any(map(matches, patterns))


def test_a_message_lists_at_most_eight_patterns() -> None:
    assert str(AllowedModels(("a", "b*"))) == "a, b*"
    assert str(AllowedModels(tuple("abcdefghij"))) == "a, b, c, d, e, f, g, h and 2 more"
