"""New API keys, and the hash in which they are stored."""

import hashlib
import secrets
import string

_BASE62 = string.ascii_letters + string.digits


def make_key() -> str:
    """Return a new random key: ``tg_`` and 40 base62 characters (238 bits)."""
    return "tg_" + "".join(secrets.choice(_BASE62) for _ in range(40))


def hash_key(key: str) -> str:
    """Return the hex SHA-256 of a whole key. Keys are stored in no other form."""
    return hashlib.sha256(key.encode()).hexdigest()
