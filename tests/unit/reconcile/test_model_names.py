"""Which of our models a vendor means by a name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.reconcile.model_names import ModelNames

OURS = ["gpt-5.4", "gpt-4o-2024-08-06", "gpt-4o-2024-11-20", "claude-haiku-4-5-20251001", "claude-sonnet-5-5"]
OURS += ["gemini-3.8-flash", "openai/gpt-4.1", "gpt-5.4-mini"]
NAMES = ModelNames(OURS, {"Terra (new)": "gpt-5.4-mini"})

MEANT = {
    "gpt-5.4": "gpt-5.4",
    "gpt-5.4-2026-03-05": "gpt-5.4",
    "gpt-5.4-mini-2026-03-05": "gpt-5.4-mini",
    "gpt-4o-2024-08-06": "gpt-4o-2024-08-06",
    # Of several snapshots, the newest.
    "gpt-4o": "gpt-4o-2024-11-20",
    "claude-haiku-4-5-20251001": "claude-haiku-4-5-20251001",
    "Claude Haiku 4.5": "claude-haiku-4-5-20251001",
    "Claude Sonnet 5.5": "claude-sonnet-5-5",
    "claude-sonnet-5-5@20260901": "claude-sonnet-5-5",
    "models/gemini-3.8-flash": "gemini-3.8-flash",
    "openai/gpt-4.1-2025-04-14": "openai/gpt-4.1",
    "Terra (new)": "gpt-5.4-mini",
    "gpt-5.4-nano": "gpt-5.4-nano",
    "gpt-5": "gpt-5",
}


@pytest.mark.parametrize("name", MEANT)
def test_a_name_is_found_also_with_a_date_or_as_people_write_it(name: str) -> None:
    assert NAMES.find(name) == MEANT[name]


@given(st.lists(st.text(max_size=20)), st.text(max_size=20))
def test_our_own_name_is_always_found_as_it_is(others: list[str], name: str) -> None:
    assert ModelNames([*others, name], {}).find(name) == name
