"""Which tools a provider may run itself during a call, and how often."""

from typing import Any

import pytest

from policies.hosted_tools import HOSTED_TOOLS, find_search_bound, hosted_tool_of


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ({"type": "web_search_20250305", "name": "web_search"}, "web_search"),
        ({"type": "web_search"}, "web_search"),
        ({"type": "web_search_preview_2025_03_11"}, "web_search"),
        ({"type": "web_fetch_20250910", "name": "web_fetch"}, None),
        ({"type": "function", "name": "web_search"}, None),
        ({"name": "web_search", "input_schema": {}}, None),
        ({"type": ["web_search"]}, None),
        ("web_search", None),
    ],
)
def test_a_hosted_tool_is_known_by_its_type(tool: object, name: str | None) -> None:
    assert hosted_tool_of(tool) == name


SEARCH = {"type": "web_search_20250305", "name": "web_search"}


@pytest.mark.parametrize(
    ("body", "bound"),
    [
        ({"tools": [SEARCH]}, 10),
        ({"tools": [SEARCH | {"max_uses": 3}]}, 3),
        ({"tools": [SEARCH | {"max_uses": 30}]}, 10),
        ({"tools": [SEARCH | {"max_uses": 0}]}, 0),
        ({"tools": [SEARCH | {"max_uses": 3}, SEARCH | {"max_uses": 4}]}, 7),
        ({"tools": [SEARCH | {"max_uses": True}]}, 10),
        ({"tools": [{"type": "web_search"}], "max_tool_calls": 2}, 2),
        ({"tools": [{"type": "web_search"}], "max_tool_calls": None}, 10),
        ({"tools": [{"type": "function", "name": "f"}]}, 0),
        ({"tools": None}, 0),
        ({}, 0),
    ],
)
def test_the_bound_of_searches_is_the_clients_up_to_that_of_the_model(
    body: dict[str, Any], bound: int
) -> None:
    assert find_search_bound(body, HOSTED_TOOLS, 10) == bound
    assert find_search_bound(body, frozenset(), 10) == 0
