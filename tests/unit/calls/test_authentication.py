"""A call's key is read from one header. An unknown, inactive or malformed key is refused and never shown."""

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.calls.authentication import authenticate, read_token
from addon.settings.api_keys import hash_key
from addon.text.http_heads import Headers, RequestHead
from policies.model import Credential, Key, Workspace
from policies.refusal import Refusal

PRINTABLE = [chr(code) for code in range(0x21, 0x7F)]


def credentials(*keys: tuple[str, bool]) -> Mapping[str, Credential]:
    made = tuple(
        Key(id=f"key-{n}", hash=hash_key(key), active=active) for n, (key, active) in enumerate(keys)
    )
    workspace = Workspace(id="acme", name="Acme", plan="standard", keys=made)
    return {one.hash: one for one in workspace.credentials}


def head(*fields: tuple[str, str]) -> RequestHead:
    return RequestHead("GET", "/", "1.1", Headers(fields))


def read(*headers: str) -> str:
    """Return the token of a request with these Authorization headers."""
    return read_token(head(*(("authorization", header) for header in headers)))


def test_several_authorization_headers_are_refused() -> None:
    assert read("Bearer a") == "a"
    for headers in (("Bearer a", "Bearer b"), ("Bearer a", "Bearer a"), ("Bearer a", "")):
        with pytest.raises(Refusal, match="one Authorization header"):
            read(*headers)


@given(
    scheme=st.sampled_from(["Bearer", "bearer", "BEARER", "bEaReR"]),
    spaces=st.integers(1, 4),
    token=st.text(PRINTABLE, min_size=1, max_size=512),
    around=st.sampled_from(["", " ", "\t"]),
)
def test_the_token_of_a_bearer_header_comes_back_as_it_was_sent(
    scheme: str, spaces: int, token: str, around: str
) -> None:
    assert read(f"{around}{scheme}{' ' * spaces}{token}{around}") == token


@given(header=st.one_of(st.text(), st.text(PRINTABLE), st.from_regex(r"[Bb]earer.{0,20}", fullmatch=True)))
def test_any_other_header_is_refused_and_never_shown(header: str) -> None:
    if re.fullmatch(r"[ \t]*bearer +[!-~]{1,512}[ \t]*", header, re.IGNORECASE):
        assert header.strip(" \t").endswith(f" {read(header)}")
        return
    with pytest.raises(Refusal) as caught:
        read(header)
    assert caught.value.code == "invalid_api_key"
    assert len(header) < 12 or header not in caught.value.message


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "tg_abc",
        "Basic dTpw",
        "Bearertg_abc",
        "Bearer\ttg_abc",
        "Bearer tg_abc tg_def",
        "Bearer tg_abc, Bearer tg_def",
        "Bearer tg_äbc",
        "Bearer tg_a\x00bc",
        "Bearer tg_a\r\nbc",
        "Bearer " + "x" * 513,
    ],
)
def test_a_missing_or_malformed_header_is_refused(header: str | None) -> None:
    with pytest.raises(Refusal, match="Authorization: Bearer YOUR_KEY") as caught:
        read(*([] if header is None else [header]))
    assert caught.value.code == "invalid_api_key"
    assert "tg_" not in caught.value.message


X_API_KEY = ("x-api-key", "tg_abc")


@pytest.mark.parametrize(
    "fields",
    [
        [X_API_KEY],
        [("x-api-key", " tg_abc\t")],
        [("authorization", "Bearer tg_abc")],
        [X_API_KEY, ("authorization", "bearer tg_abc")],
    ],
)
def test_a_key_may_be_in_the_header_of_anthropics_clients(fields: list[tuple[str, str]]) -> None:
    assert read_token(head(*fields), takes_x_api_key=True) == "tg_abc"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ([], "x-api-key: YOUR_KEY, or Authorization: Bearer YOUR_KEY"),
        ([("x-api-key", "")], "x-api-key header is malformed"),
        ([("x-api-key", "tg_a bc")], "x-api-key header is malformed"),
        ([("x-api-key", "x" * 513)], "x-api-key header is malformed"),
        ([X_API_KEY, X_API_KEY], "one x-api-key header"),
        ([X_API_KEY, ("authorization", "Bearer tg_def")], "different API keys"),
        ([X_API_KEY, ("authorization", "Basic tg_abc")], "Authorization header is malformed"),
    ],
)
def test_no_key_or_two_are_refused(fields: list[tuple[str, str]], words: str) -> None:
    with pytest.raises(Refusal, match=words) as caught:
        read_token(head(*fields), takes_x_api_key=True)
    assert caught.value.code == "invalid_api_key" and "tg_" not in caught.value.message


def test_other_apis_do_not_read_that_header() -> None:
    with pytest.raises(Refusal, match="didn't provide an API key"):
        read_token(head(X_API_KEY))


def test_an_active_key_gives_its_workspace() -> None:
    found = authenticate(credentials(("tg_one", True), ("tg_two", True)), "tg_two")
    assert (found.workspace.id, found.key.id, found.needs_check) == ("acme", "key-1", False)


def test_unknown_keys_are_refused_alike_and_never_shown() -> None:
    keys = credentials(("tg_one", True), ("tg_off", False))
    messages = set()
    for presented in ("tg_unknown", "tg_on", "tg_one ", "TG_ONE", "", hash_key("tg_one")):
        with pytest.raises(Refusal) as caught:
            authenticate(keys, presented)
        assert caught.value.code == "invalid_api_key"
        messages.add(caught.value.message)
    assert len(messages) == 1
    assert "tg_" not in messages.pop()


def test_an_entry_under_a_wrong_hash_is_refused() -> None:
    [entry] = credentials(("tg_one", True)).values()
    with pytest.raises(Refusal):
        authenticate({hash_key("tg_two"): entry}, "tg_two")
