"""A token is opened by every set of master keys that holds its key, and by no other. Errors show no secret."""

import base64

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from addon.settings.sealed_secrets import MasterKeys, check_token, make_master_key

OLD, NEW, OTHER = (make_master_key() for _ in range(3))
SECRET = "sk-obviously-fake-secret"


@given(secret=st.text())
def test_a_token_is_opened_by_every_set_with_its_key_and_by_no_other(secret: str) -> None:
    token = MasterKeys(OLD).seal(secret)
    check_token(token)
    assert MasterKeys(OLD).unseal(token) == secret
    assert MasterKeys(f"{NEW} {OLD}").unseal(token) == secret
    assert MasterKeys(OLD).seal(secret) != token
    with pytest.raises(ValueError, match="is damaged, or sealed with another master key"):
        MasterKeys(f"{NEW} {OTHER}").unseal(token)


@given(
    secret=st.text(max_size=40),
    at=st.integers(0),
    bit=st.integers(0, 7),
)
def test_a_token_with_one_bit_changed_is_not_opened(secret: str, at: int, bit: int) -> None:
    raw = bytearray(base64.urlsafe_b64decode(MasterKeys(OLD).seal(secret)))
    raw[at % len(raw)] ^= 1 << bit
    with pytest.raises(ValueError, match=r"sealed with another|not a whole token"):
        MasterKeys(OLD).unseal(base64.urlsafe_b64encode(raw).decode())


def test_only_the_first_key_seals_and_its_tokens_do_not_change() -> None:
    both = MasterKeys(f"{NEW},{OLD}")
    fresh = both.reseal(MasterKeys(OLD).seal(SECRET))
    assert MasterKeys(NEW).unseal(fresh) == SECRET
    assert both.reseal(fresh) == fresh
    with pytest.raises(ValueError, match="sealed with another"):
        both.reseal(MasterKeys(OTHER).seal(SECRET))


@pytest.mark.parametrize("between", [",", " ", "\n", "\r\n", " , ", ",\n"])
def test_keys_are_separated_by_commas_or_white_space(between: str) -> None:
    keys = MasterKeys(f" {NEW}{between}{OLD}\n")
    assert keys.unseal(MasterKeys(OLD).seal(SECRET)) == SECRET
    assert MasterKeys(NEW).unseal(keys.seal(SECRET)) == SECRET


NOT_KEYS = {
    "nothing": ("", "holds no master key"),
    "white space": (" \n,", "holds no master key"),
    "a password": ("hunter2-hunter2", "number 1 is not"),
    "a second that is short": (f"{NEW} {OLD[:-2]}=", "number 2 is not"),
    "two without a space": (NEW + OLD, "number 1 is not"),
    "the other base64": (base64.b64encode(b"\xff" * 32).decode(), "number 1 is not"),
    "33 bytes": (base64.urlsafe_b64encode(b"x" * 33).decode(), "number 1 is not"),
    "other letters": ("é" * 43 + "=", "number 1 is not"),
}


@pytest.mark.parametrize("case", NOT_KEYS)
def test_a_wrong_master_key_is_refused_and_not_shown(case: str) -> None:
    text, reason = NOT_KEYS[case]
    with pytest.raises(ValueError, match=reason) as caught:
        MasterKeys(text)
    assert not [word for word in text.split() if word in str(caught.value)]


WHOLE = MasterKeys(OLD).seal(SECRET)
NOT_TOKENS = {
    "nothing": "",
    "the secret itself": SECRET,
    "half of one": WHOLE[: len(WHOLE) // 2],
    "one without its end": WHOLE[:-4],
    "one with a space": f"{WHOLE[:20]} {WHOLE[20:]}",
    "one with a star": f"{WHOLE[:20]}*{WHOLE[21:]}",
    "other letters": f"é{WHOLE[1:]}",
    "another version": f"B{WHOLE[1:]}",
    "no block": base64.urlsafe_b64encode(b"\x80" + bytes(56)).decode(),
}


@pytest.mark.parametrize("case", NOT_TOKENS)
def test_a_wrong_token_is_refused_and_not_shown(case: str) -> None:
    token = NOT_TOKENS[case]
    for refuse in (check_token, MasterKeys(OLD).unseal, MasterKeys(OLD).reseal):
        with pytest.raises(ValueError, match="is not a whole token") as caught:
            refuse(token)
        assert not token or token not in str(caught.value)


def test_a_token_whose_secret_is_not_utf8_is_refused() -> None:
    token = Fernet(OLD).encrypt(b"\xff\xfe").decode()
    with pytest.raises(ValueError, match=r"^is not UTF-8 text$"):
        MasterKeys(OLD).unseal(token)


def test_the_text_of_master_keys_shows_no_key() -> None:
    assert OLD not in repr(vars(MasterKeys(OLD)))
