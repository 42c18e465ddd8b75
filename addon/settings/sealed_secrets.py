"""Sealed secrets of operators' files, ``sealed:TOKEN``, and the master keys that seal and open them.

Values in, values out, except that Fernet puts randomness and the time into each token. No error shows a key, a token
or a secret. Source: the Fernet specification (github.com/fernet/spec): version 0x80, 8 bytes of time, 16 of IV,
blocks of 16, 32 of HMAC. Its library takes long to import, so only the functions that need it import it.
"""

import base64
import hmac
import re
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

if TYPE_CHECKING:
    from cryptography.fernet import Fernet, MultiFernet

SCHEME: Final = "sealed:"

_KEY: Final = re.compile(r"[A-Za-z0-9_-]{43}=")
_BETWEEN_KEYS: Final = re.compile(r"[,\s]+")
_VERSION: Final = 0x80
_BLOCK_BYTES: Final = 16
_OTHER_BYTES: Final = 1 + 8 + 16 + 32


def make_master_key() -> str:
    """Return a new random master key: 32 bytes in URL-safe base64."""
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode()


def check_token(token: str) -> None:
    """Raise ValueError for a text that no master key could open. The token is the text after ``sealed:``."""
    try:
        raw = base64.b64decode(token, altchars=b"-_", validate=True)
    except ValueError:
        raw = b""
    blocks_bytes = len(raw) - _OTHER_BYTES
    if blocks_bytes < _BLOCK_BYTES or blocks_bytes % _BLOCK_BYTES or raw[0] != _VERSION:
        raise ValueError("is not a whole token of `tollgate secrets seal`")


class MasterKeys:
    """One or more master keys. The first one seals; each of them opens."""

    def __init__(self, text: str) -> None:
        """Take Fernet keys separated by commas or white space. Raises ValueError for no key or a wrong one."""
        written = [word for word in _BETWEEN_KEYS.split(text) if word]
        if not written:
            raise ValueError("holds no master key")
        for number, word in enumerate(written, 1):
            if not _KEY.fullmatch(word):
                raise ValueError(
                    f"is not made of master keys: number {number} is not 32 bytes in URL-safe base64"
                )
        # A secret has a text that does not show it.
        self._written = [SecretStr(word) for word in written]

    @cached_property
    def _first(self) -> "Fernet":
        from cryptography.fernet import Fernet

        return Fernet(self._written[0].get_secret_value())

    @cached_property
    def _all(self) -> "MultiFernet":
        from cryptography.fernet import Fernet, MultiFernet

        return MultiFernet([Fernet(word.get_secret_value()) for word in self._written])

    def derive(self, purpose: str) -> bytes:
        """Return 32 bytes for this purpose, of the first key. They say nothing of the key, nor of other purposes."""
        key = base64.urlsafe_b64decode(self._written[0].get_secret_value())
        return hmac.digest(key, f"tollgate {purpose}".encode(), "sha256")

    def seal(self, secret: str) -> str:
        """Return a token of ``secret`` made with the first key. Each call returns another one."""
        return self._first.encrypt(secret.encode()).decode()

    def unseal(self, token: str) -> str:
        """Return the secret in a token. Raises ValueError."""
        from cryptography.fernet import InvalidToken

        check_token(token)
        try:
            return self._all.decrypt(token).decode()
        except InvalidToken:
            raise ValueError("is damaged, or sealed with another master key") from None
        except UnicodeDecodeError:
            raise ValueError("is not UTF-8 text") from None

    def reseal(self, token: str) -> str:
        """Return a token of the same secret that the first key opens: ``token``, if it does. Raises ValueError."""
        from cryptography.fernet import InvalidToken

        secret = self.unseal(token)
        try:
            self._first.decrypt(token)
        except InvalidToken:
            return self.seal(secret)
        return token
