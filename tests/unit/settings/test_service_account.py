"""A wrong key file of a service account is refused with the name of the field, and no value is shown."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from rig.service_accounts import key_file, pem, rsa_key

from addon.settings.service_account import parse_service_account

GOOGLE = "https://oauth2.googleapis.com/token"
WRONG_FILES: dict[str, tuple[Callable[[], str], str]] = {
    "no JSON": (lambda: "-----BEGIN PRIVATE KEY-----", "is not a JSON object"),
    "a list": (lambda: "[]", "is not a JSON object"),
    "a user's file": (lambda: key_file(GOOGLE, type="authorized_user"), '"type" is not "service_account"'),
    "no email": (lambda: key_file(GOOGLE, client_email=""), 'lacks "client_email"'),
    "no key": (lambda: key_file(GOOGLE, private_key=None), 'lacks "private_key"'),
    "no token server": (lambda: key_file(""), 'lacks "token_uri"'),
    "a key id that is a number": (lambda: key_file(GOOGLE, private_key_id=7), 'lacks "private_key_id"'),
    "a token server that is not a URL": (lambda: key_file("oauth2"), '"token_uri" is not a URL'),
    "a user in the URL": (lambda: key_file("https://u:p@a/token"), '"token_uri" is not a URL'),
    "plain HTTP": (lambda: key_file("http://oauth2.googleapis.com/token"), "must begin with https"),
    "cut PEM": (
        lambda: key_file(GOOGLE, private_key=pem(rsa_key())[:300]),
        '"private_key" is not an unencrypted',
    ),
    "encrypted PEM": (
        lambda: key_file(GOOGLE, private_key=pem(rsa_key(), b"x")),
        '"private_key" is not an unencrypted',
    ),
    "a key that is not RSA": (
        lambda: key_file(GOOGLE, private_key=pem(ec.generate_private_key(ec.SECP256R1()))),
        '"private_key" is not an unencrypted RSA key',
    ),
}


@pytest.mark.parametrize("case", WRONG_FILES)
def test_an_unusable_key_file_is_refused_with_the_name_of_its_field(case: str) -> None:
    make, message = WRONG_FILES[case]
    with pytest.raises(ValueError, match=message) as caught:
        parse_service_account(make())
    assert "BEGIN" not in str(caught.value)


def test_the_text_of_an_account_does_not_show_its_key() -> None:
    assert "private_key" not in repr(parse_service_account(key_file(GOOGLE)))
    assert replace(parse_service_account(key_file(GOOGLE)), key_id=None).key_id is None
