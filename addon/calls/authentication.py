"""Authentication of a call: from the bearer token of its head to the workspace that owns the key.

Tokens are compared by their hash, and no message ever shows one. Source: contract, "Authentication".
"""

import hmac
import re
from collections.abc import Mapping

from addon.settings.api_keys import hash_key
from addon.text.http_heads import RequestHead
from policies.model import Credential
from policies.refusal import Refusal

_BEARER = re.compile(r"bearer +([!-~]{1,512})", re.IGNORECASE | re.ASCII)
_X_API_KEY = re.compile(r"[!-~]{1,512}", re.ASCII)
_NO_HASH = "0" * 64


def read_token(head: RequestHead, *, takes_x_api_key: bool = False) -> str:
    """Return the token of the ``Authorization`` field: 1 to 512 printable ASCII characters.

    With ``takes_x_api_key`` it may be in that field, as clients of Anthropic's API send it, or in both. Raises Refusal
    ``invalid_api_key`` for none, for more than one field, for two tokens, and for any other form.
    """
    if takes_x_api_key and "x-api-key" in head.headers:
        return _read_either(head)
    values = [value for name, value in head.headers.fields if name == "authorization"]
    if not values:
        way = "x-api-key: YOUR_KEY, or " if takes_x_api_key else ""
        raise Refusal(
            "invalid_api_key",
            f"You didn't provide an API key. Send it in a header: {way}Authorization: Bearer YOUR_KEY.",
        )
    if len(values) > 1:
        raise Refusal("invalid_api_key", "Send one Authorization header, not several.")
    match = _BEARER.fullmatch(values[0].strip(" \t"))
    if match is None:
        raise Refusal(
            "invalid_api_key",
            "The Authorization header is malformed. It must be: Authorization: Bearer YOUR_KEY.",
        )
    return match[1]


def _read_either(head: RequestHead) -> str:
    """Return the token of ``x-api-key``, which is there. ``Authorization`` may repeat it."""
    values = head.headers.get_all("x-api-key")
    if len(values) > 1:
        raise Refusal("invalid_api_key", "Send one x-api-key header, not several.")
    token = values[0].strip(" \t")
    if not _X_API_KEY.fullmatch(token):
        raise Refusal(
            "invalid_api_key", "The x-api-key header is malformed. It must be: x-api-key: YOUR_KEY."
        )
    if "authorization" in head.headers and read_token(head) != token:
        raise Refusal(
            "invalid_api_key",
            "The headers x-api-key and Authorization have different API keys. Send one of them.",
        )
    return token


def authenticate(credentials_by_hash: Mapping[str, Credential], token: str) -> Credential:
    """Return the credential of a token. Raises ``Refusal`` ``invalid_api_key`` for an unknown one.

    The lookup is by SHA-256, so its timing reveals nothing about a key. The comparison takes the same time for a hit
    and a miss. A credential that ``needs_check`` may have ended.
    """
    token_hash = hash_key(token)
    found = credentials_by_hash.get(token_hash)
    matches = hmac.compare_digest(found.hash if found else _NO_HASH, token_hash)
    if found is None or not matches:
        raise invalid_key_refusal()
    return found


def invalid_key_refusal() -> Refusal:
    """Return the refusal of a key that is unknown, not active or expired: the same for all."""
    return Refusal("invalid_api_key", "Incorrect API key provided. Use an active key of your workspace.")
