"""The signed cookie of a browser: how long it holds, and that no one can make or change one."""

import time
from dataclasses import replace

import pytest

from addon.console.access.session import (
    IDLE_S,
    LONGEST_S,
    RENEW_S,
    Session,
    make_cookie,
    make_form_token,
    read_cookie,
)

NAME, KEY = "tollgate_session_8081", "k" * 64
NOW = int(time.time())
SESSION = Session("login", "i" * 24, NOW, NOW)


def test_a_cookie_has_its_session() -> None:
    assert read_cookie(KEY, NAME, make_cookie(KEY, NAME, SESSION)) == SESSION


def test_another_key_another_name_and_any_other_byte_have_none() -> None:
    value = make_cookie(KEY, NAME, SESSION)
    assert read_cookie("j" * 64, NAME, value) is None
    assert read_cookie(KEY, "tollgate_session_8082", value) is None
    for at in range(len(value)):
        changed = value[:at] + ("0" if value[at] != "0" else "1") + value[at + 1 :]
        assert read_cookie(KEY, NAME, changed) is None


@pytest.mark.parametrize("value", ["", "2|", "1|a|b", "|" * 1000, "\u00e9", "2|1:0|10:0|1:|1:|x" * 200])
def test_what_is_no_cookie_has_none(value: str) -> None:
    assert read_cookie(KEY, NAME, value) is None


# how old the login and the last use are, whether the session is current
AGES = {
    "new": (0, 0, True),
    "in use for days": (LONGEST_S - 1, 0, True),
    "idle for long": (IDLE_S - 1, IDLE_S - 1, True),
    "idle for too long": (IDLE_S, IDLE_S, False),
    "too old, though in use": (LONGEST_S, 0, False),
    "from a machine whose clock is ahead": (-60, -60, True),
    "from the future": (-3600, -3600, False),
}


@pytest.mark.parametrize("case", AGES)
def test_a_session_ends_when_it_is_idle_or_old(case: str) -> None:
    began, used, is_current = AGES[case]
    assert replace(SESSION, began_s=NOW - began, used_s=NOW - used).is_current(NOW) is is_current


def test_a_session_in_use_is_renewed_and_keeps_its_beginning() -> None:
    assert SESSION.renewed(NOW + RENEW_S - 1) is None
    renewed = SESSION.renewed(NOW + RENEW_S)
    assert renewed == replace(SESSION, used_s=NOW + RENEW_S)


def test_each_session_has_its_own_form_token() -> None:
    others = [replace(SESSION, id="j" * 24), replace(SESSION, kind="visit")]
    tokens = [make_form_token(KEY, one) for one in (SESSION, *others)] + [make_form_token("j" * 64, SESSION)]
    assert len(set(tokens)) == 4
    assert make_form_token(KEY, replace(SESSION, used_s=NOW + 9)) == tokens[0]
