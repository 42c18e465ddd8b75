"""Each error code that a ledger row can have is explained, and docs/errors.md has it."""

import pytest
from rig.configuration import ROOT

from addon.text.error_meanings import _BY_CODE, explain_error
from addon.text.errors import REFUSALS, REQUEST_ERROR, SERVER_ERROR, UPSTREAM_ERRORS
from policies.exchange import CLIENT_DISCONNECTED, INTERRUPTED

CODES = {
    *REFUSALS,
    *(code for _, code in UPSTREAM_ERRORS.values()),
    SERVER_ERROR[1],
    REQUEST_ERROR[1],
    CLIENT_DISCONNECTED,
    INTERRUPTED,
}


def test_the_explained_codes_are_those_of_the_gateway() -> None:
    assert set(_BY_CODE) == CODES


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_page_of_errors_has_the_code(code: str) -> None:
    assert f"`{code}`" in (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")


def test_an_unknown_code_is_said_to_be_one() -> None:
    assert "policies" in explain_error("blocked_by_us")
