"""A Google service account: its key file, and the signed assertion that it trades for an access token. Pure.

An error names a field and never shows its value. Source: Google, "Using OAuth 2.0 for server to
server applications", "HTTP/REST"; RFC 7523.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_LIFE_S: Final = 3600
"""The longest life that Google accepts."""

_MIN_KEY_BITS: Final = 2048  # Source: RFC 7518, 3.3.
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_ACCOUNT: Final = "the service account"


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The account that asks for tokens, and the URL that issues them."""

    client_email: str
    token_uri: str
    key_id: str | None
    private_key: RSAPrivateKey = field(repr=False)


def parse_service_account(text: str) -> ServiceAccount:
    """Return the account in a JSON key file. Raises ValueError, whose message shows no part of the text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{_ACCOUNT} is not a JSON object")
    if found.get("type") != "service_account":
        raise ValueError(f'{_ACCOUNT}\'s "type" is not "service_account"')
    return ServiceAccount(
        client_email=_read_text(found, "client_email"),
        token_uri=_check_token_uri(_read_text(found, "token_uri")),
        key_id=found.get("private_key_id") and _read_text(found, "private_key_id"),
        private_key=_load_private_key(_read_text(found, "private_key")),
    )


def sign_assertion(account: ServiceAccount, now_s: int) -> str:
    """Return the JWT that the account trades for an access token at the Unix time ``now_s``."""
    claims = {
        "iss": account.client_email,
        "aud": account.token_uri,
        "scope": SCOPE,
        "iat": now_s,
        "exp": now_s + ASSERTION_LIFE_S,
    }
    headers = {"kid": account.key_id} if account.key_id else None
    return jwt.encode(claims, account.private_key, "RS256", headers)


def _read_text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f'{_ACCOUNT} lacks "{name}"')
    return value


def _check_token_uri(text: str) -> str:
    """Return the URL, which must use TLS or be on loopback: the signed assertion goes there and must stay secret."""
    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or not re.fullmatch(r"[!-~]+", text) or "@" in parts.netloc:
        raise ValueError(f'{_ACCOUNT}\'s "token_uri" is not a URL')
    if parts.scheme != "https" and not (parts.scheme == "http" and host in _LOOPBACK):
        raise ValueError(f'{_ACCOUNT}\'s "token_uri" must begin with https://')
    return text


def _load_private_key(pem: str) -> RSAPrivateKey:
    try:
        key = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, RSAPrivateKey) or key.key_size < _MIN_KEY_BITS:
        raise ValueError(
            f'{_ACCOUNT}\'s "private_key" is not an unencrypted RSA key of at least {_MIN_KEY_BITS} bits in PEM'
        )
    return key
