"""docs/errors.md agrees with the code on every error code, status and type."""

import re
from typing import get_args

import pytest
from rig.configuration import ROOT

from addon.apis.chat.request import parse_chat_request
from addon.apis.validation import MAX_EXPLAINED_FAILURES, MAX_FOUND_FAILURES
from addon.text.errors import MAX_MESSAGE_CHARS, REFUSALS, upstream_error
from addon.text.json_decode import MAX_DEPTH
from policies.refusal import Refusal, RefusalCode

TEXT = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return TEXT.split(f"## {title}\n")[1].split("\n## ")[0]


def rows(title: str) -> list[tuple[str, str, str]]:
    """Return status, code and type of each row of a section's table."""
    found = re.findall(r"^\| ([\w ]+) \| `(\w+)` \| `(\w+)` \|", section(title), re.MULTILINE)
    return [(status, code, kind) for status, code, kind in found]


def test_the_gateways_table_is_the_one_in_the_code() -> None:
    documented = {code: (int(status), kind) for status, code, kind in rows("Errors of the gateway itself")}
    assert documented == dict(REFUSALS)


def test_every_code_of_a_refusal_has_a_status() -> None:
    assert set(REFUSALS) == set(get_args(RefusalCode))


@pytest.mark.parametrize(("status", "code", "kind"), rows("Errors of a provider"))
def test_the_providers_table_agrees_with_the_code(status: str, code: str, kind: str) -> None:
    meant = {"5xx": (500, 501, 502, 503, 504), "other 4xx": (400, 402, 405, 408, 409, 413, 415, 422)}
    for each in meant.get(status) or (int(status),):
        answer = upstream_error(each, b"")
        assert (answer.status, answer.code, answer.type) == (each, code, kind)


def test_the_providers_table_has_every_row_of_the_contract() -> None:
    assert [status for status, *_ in rows("Errors of a provider")] == [
        "401",
        "403",
        "404",
        "429",
        "5xx",
        "other 4xx",
    ]


def test_the_example_is_what_a_client_gets() -> None:
    with pytest.raises(Refusal) as raised:
        parse_chat_request(b'{"messages":[{"role":"user","content":"hi"}],"temperature":"hot"}')
    assert f'"message": "{raised.value.message}"' in TEXT
    assert raised.value.param == "temperature"


@pytest.mark.parametrize(
    ("number", "phrase"),
    [
        (MAX_MESSAGE_CHARS, "at most {} characters"),
        (MAX_EXPLAINED_FAILURES, "the first {} with what is wrong"),
        (MAX_FOUND_FAILURES, "more than {} they"),
        (MAX_DEPTH, "more than {} levels"),
    ],
)
def test_the_documented_bounds_are_the_real_ones(number: int, phrase: str) -> None:
    assert phrase.format(f"{number:,}") in TEXT
