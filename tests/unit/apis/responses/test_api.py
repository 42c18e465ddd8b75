"""Which field of a Responses request tells the users of a workspace apart."""

import json
from typing import Any

import pytest

from addon.apis.responses.api import parse
from addon.text.http_heads import Headers


@pytest.mark.parametrize(
    ("given", "end_user"),
    [
        ({}, None),
        ({"user": "u"}, "u"),
        ({"safety_identifier": "s"}, "s"),
        ({"user": "u", "safety_identifier": "s"}, "u"),
        ({"user": "", "safety_identifier": "s"}, "s"),
        ({"user": None, "safety_identifier": "s"}, "s"),
    ],
)
def test_a_safety_identifier_is_the_user_where_there_is_none(
    given: dict[str, Any], end_user: str | None
) -> None:
    assert parse(json.dumps({"input": "Hi", **given}).encode(), Headers([])).end_user == end_user
