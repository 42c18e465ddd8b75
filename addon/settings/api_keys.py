"""Who calls: the bearer token of a request head, its hash, and the workspace that owns it.

Only hashes are compared and kept, and no message ever shows a key.
Source: contract, "Authentication".
"""

import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Mapping

from policies.model import Key, Workspace
from policies.refusal import Refusal

_BEARER = re.compile(r"bearer +([!-~]{1,512})", re.IGNORECASE | re.ASCII)
_BASE62 = string.ascii_letters + string.digits
_NO_HASH = "0" * 64


def parse_bearer(header: str | None) -> str:
    """Return the token of one ``Authorization`` header (1 to 512 printable ASCII characters).

    Raises ``Refusal`` ``invalid_api_key`` for None and for any other form. A repeated header is the
    caller's to refuse.
    """
    if header is None:
        raise Refusal(
            "invalid_api_key",
            "You didn't provide an API key. Send it in a header: Authorization: Bearer YOUR_KEY.",
        )
    match = _BEARER.fullmatch(header.strip(" \t"))
    if match is None:
        raise Refusal(
            "invalid_api_key",
            "The Authorization header is malformed. It must be: Authorization: Bearer YOUR_KEY.",
        )
    return match[1]


def identify(settings_keys: Mapping[str, tuple[Workspace, Key]], presented: str) -> tuple[Workspace, Key]:
    """Return the owner of the presented key.

    Raises ``Refusal`` ``invalid_api_key``, the same for an unknown and for an inactive key. The lookup goes by
    SHA-256, so its timing tells nothing about a key; the comparison takes the same time for a hit and a miss.
    """
    presented_hash = hash_key(presented)
    found = settings_keys.get(presented_hash)
    matches = hmac.compare_digest(found[1].hash if found else _NO_HASH, presented_hash)
    if found is None or not matches or not found[1].active:
        raise not_a_key()
    return found


def not_a_key() -> Refusal:
    """Return what is said of a key that is unknown or not active."""
    return Refusal("invalid_api_key", "Incorrect API key provided. Use an active key of your workspace.")


def new_key() -> str:
    """Return a new random key: ``tg_`` and 40 base62 characters (238 bits)."""
    return "tg_" + "".join(secrets.choice(_BASE62) for _ in range(40))


def hash_key(key: str) -> str:
    """Return the hex SHA-256 of a whole key, the only form in which it is stored."""
    return hashlib.sha256(key.encode()).hexdigest()
