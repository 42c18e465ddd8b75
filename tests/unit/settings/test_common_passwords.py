"""Passwords that an attacker tries first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.settings.common_passwords import is_common
from addon.settings.console_password import MAX_CHARS


@pytest.mark.parametrize(
    "password",
    [
        "1q2w3e4r5t6y",
        "QwertyAsdfgh",
        "password1234",
        "Password2026!",
        "passwordpassword",
        "tollgate-2026",
        "Administrator1",
        "123456789012",
        "aaaaaaaaaaaaaaaa",
        "abcabcabcabc",
        "ChangeMe!!!!",
        "p@ssw0rd2026",
    ],
)
def test_what_a_word_list_begins_with_is_common(password: str) -> None:
    assert is_common(password)


@pytest.mark.parametrize(
    "password",
    ["correct horse battery staple", "obviously fake pass phrase", "tR0ub4dor&3-x9", "a" * 6 + "bcd7-Zx"],
)
def test_what_no_word_list_has_is_not(password: str) -> None:
    assert not is_common(password)


@given(st.text(min_size=12, max_size=MAX_CHARS))
def test_any_text_has_an_answer(text: str) -> None:
    assert is_common(text) in (True, False)
