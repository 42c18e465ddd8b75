"""Secrets that stand sealed in operators' files, ``sealed:TOKEN``: what seals them, and what opens them again.

Values in, values out; only Fernet itself takes the randomness and the time that stand in each token. No fault shows
a key, a token or a secret. Source: the Fernet specification (github.com/fernet/spec): version 0x80, 8 bytes of time,
16 of IV, blocks of 16, 32 of HMAC.
"""

import base64
import re
from typing import Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

SCHEME: Final = "sealed:"

_KEY: Final = re.compile(r"[A-Za-z0-9_-]{43}=")
_BETWEEN_KEYS: Final = re.compile(r"[,\s]+")
_VERSION: Final = 0x80
_BLOCK_BYTES: Final = 16
_BESIDE_BLOCKS_BYTES: Final = 1 + 8 + 16 + 32


def new_master_key() -> str:
    """Return a new random master key: 32 bytes in URL-safe base64."""
    return Fernet.generate_key().decode()


def check_token(token: str) -> None:
    """Raise ValueError for what no master key could open. A token is what follows ``sealed:``."""
    try:
        raw = base64.b64decode(token, altchars=b"-_", validate=True)
    except ValueError:
        raw = b""
    blocks_bytes = len(raw) - _BESIDE_BLOCKS_BYTES
    if blocks_bytes < _BLOCK_BYTES or blocks_bytes % _BLOCK_BYTES or raw[0] != _VERSION:
        raise ValueError("is not a whole token as `tollgate secrets seal` prints it")


class MasterKeys:
    """One or more master keys: the first one seals, every one opens."""

    def __init__(self, text: str) -> None:
        """Take Fernet keys separated by commas or white space. Raises ValueError where there is none, or no key."""
        written = [word for word in _BETWEEN_KEYS.split(text) if word]
        if not written:
            raise ValueError("holds no master key")
        for number, word in enumerate(written, 1):
            if not _KEY.fullmatch(word):
                raise ValueError(
                    f"is not made of master keys: number {number} is none of 32 bytes in URL-safe base64"
                )
        keys = [Fernet(word) for word in written]
        self._first = keys[0]
        self._all = MultiFernet(keys)

    def seal(self, secret: str) -> str:
        """Return the token that the first key makes of ``secret``, another one each time."""
        return self._first.encrypt(secret.encode()).decode()

    def unseal(self, token: str) -> str:
        """Return the secret in a token. Raises ValueError."""
        check_token(token)
        try:
            return self._all.decrypt(token).decode()
        except InvalidToken:
            raise ValueError("is sealed with none of the master keys, or damaged") from None
        except UnicodeDecodeError:
            raise ValueError("holds no text") from None

    def reseal(self, token: str) -> str:
        """Return a token of the same secret that the first key opens: this one, where it does. Raises ValueError."""
        secret = self.unseal(token)
        try:
            self._first.decrypt(token)
        except InvalidToken:
            return self.seal(secret)
        return token
