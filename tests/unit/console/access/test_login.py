"""Where a login goes on: always to a page of this server."""

import pytest

from addon.console.access.login import find_next

LOCAL = ["/", "/calls", "/calls?status=5xx&workspace=a%20b", "/calls/0193-x", "/a//b", "/?x=//evil"]
ELSEWHERE = [
    *("", "calls", "//evil.example.com", "/\\evil.example.com", "\\\\evil", "/\\/evil", "///evil"),
    *("http://evil.example.com/", "https:evil", "javascript:alert(1)", "/calls\\..\\..", " //evil", "/ a"),
    *("/\t/evil", "/\n/evil", "/\r\nSet-Cookie: a=b", "/a\x00", "/\u00e9", "/" + "a" * 2048),
    *("/login", "/login?next=/calls", "/logout"),
]


@pytest.mark.parametrize("wanted", LOCAL)
def test_a_path_of_the_console_is_kept(wanted: str) -> None:
    assert find_next(wanted) == wanted


@pytest.mark.parametrize("wanted", ELSEWHERE)
def test_everything_else_is_the_start(wanted: str) -> None:
    assert find_next(wanted) == "/"
