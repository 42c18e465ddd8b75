"""The lists of models in the shapes of Anthropic's and OpenAI's SDKs."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.routed_calls import MODELS

from addon.calls.model_lists import format_anthropic_list, format_openai_list
from policies.refusal import Refusal

ABC = [replace(MODELS["gpt"], slug=slug, active=slug != "off") for slug in ("c", "off", "a", "b")]


def page(query: str) -> tuple[list[str], bool, str | None, str | None]:
    listed = json.loads(format_anthropic_list(ABC, query))
    return [one["id"] for one in listed["data"]], listed["has_more"], listed["first_id"], listed["last_id"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", (["a", "b", "c"], False, "a", "c")),
        ("beta=true&lifecycle[]=active", (["a", "b", "c"], False, "a", "c")),
        ("limit=2", (["a", "b"], True, "a", "b")),
        ("limit=2&after_id=b", (["c"], False, "c", "c")),
        ("after_id=c", ([], False, None, None)),
        ("limit=1&before_id=c", (["b"], True, "b", "b")),
        ("limit=1000&before_id=c", (["a", "b"], False, "a", "b")),
        ("before_id=a", ([], False, None, None)),
        # A model that left the catalog in between keeps its place.
        ("limit=1&after_id=aa", (["b"], True, "b", "b")),
    ],
)
def test_a_page_of_anthropics_list(query: str, expected: Any) -> None:
    assert page(query) == expected


@pytest.mark.parametrize(
    ("query", "param"),
    [
        *((f"limit={text}", "limit") for text in ("0", "1001", "-1", "x", "", "1.0", "9" * 99)),
        ("before_id=a&after_id=b", "before_id"),
    ],
)
def test_a_wrong_query_names_its_parameter(query: str, param: str) -> None:
    with pytest.raises(Refusal) as refused:
        page(query)
    assert (refused.value.code, refused.value.param) == ("validation_failed", param)


@given(st.sets(st.text("abc", min_size=1, max_size=3), max_size=12), st.integers(1, 5))
def test_the_pages_together_are_the_whole_list_both_ways(slugs: set[str], limit: int) -> None:
    models = [replace(MODELS["gpt"], slug=slug) for slug in slugs]

    def walk(cursor: str, end: str) -> list[str]:
        ids, query = list[str](), f"limit={limit}"
        if cursor == "before_id":
            query += "&before_id=d"
        while True:
            listed = json.loads(format_anthropic_list(models, query))
            page_ids = [one["id"] for one in listed["data"]]
            ids = [*ids, *page_ids] if cursor == "after_id" else [*page_ids, *ids]
            if not listed["has_more"]:
                return ids
            query = f"limit={limit}&{cursor}={listed[end]}"

    assert walk("after_id", "last_id") == sorted(slugs)
    assert walk("before_id", "first_id") == sorted(slugs)


def test_openais_list_has_all_active_models() -> None:
    listed = json.loads(format_openai_list(ABC))
    assert [one["id"] for one in listed["data"]] == ["a", "b", "c"]
    assert listed["data"][0] == {"id": "a", "object": "model", "created": 0, "owned_by": "openai"}
