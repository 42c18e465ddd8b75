"""``PasswordCheck``: compares passwords slowly, in a thread, and not too often."""

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Final

from pydantic import SecretStr

from addon.console.access.back_off import BackOff, network_of
from addon.console.access.session_keys import MAX_COST, SessionKeys, find_session_keys
from addon.settings.console_password import MAX_CHARS, ConsolePassword, normalize_password

log = logging.getLogger("tollgate.console")

MAX_WAITING: Final = 4
"""How many passwords may wait for the thread."""

_MAX_BYTES: Final = 2 * 1024 * MAX_COST
"""More than scrypt needs at the highest cost."""

_MAX_REMEMBERED: Final = 256


class TooOftenError(Exception):
    """Too many attempts. The next one may come after ``wait_s``."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"wait {wait_s:.0f} s")
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class PasswordKeys:
    """The keys of a password: one to compare, and one that signs cookies, with the ``installation`` they are of."""

    verifier: bytes = field(repr=False)
    signing: str = field(repr=False)
    installation: SessionKeys


def derive_keys(password: str, installation: SessionKeys) -> PasswordKeys:
    """Return the keys of a password. This takes long on purpose.

    A new password ends all sessions. But without the installation's keys, no cookie says anything of the password.
    """
    text, cost = normalize_password(password).encode("utf-8", "replace"), installation.scrypt_n
    salt = bytes.fromhex(installation.salt)
    verifier = hashlib.scrypt(text, salt=salt, n=cost, r=8, p=1, maxmem=_MAX_BYTES, dklen=32)
    signing = hmac.digest(bytes.fromhex(installation.signing), verifier, "sha256")
    return PasswordKeys(verifier, signing.hex(), installation)


class PasswordCheck:
    """Compares passwords with the configured one, one at a time. Its work ends with ``close``.

    ``keys_file`` is that of the installation's ``SessionKeys``.
    """

    def __init__(self, keys_file: Path) -> None:
        self._keys_file = keys_file
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="console-password")
        self._waiting = 0
        self._back_off = BackOff()
        self._configured: ConsolePassword | None = None
        self._derived: Future[PasswordKeys] | None = None
        # Only digests are kept, with a key of this process.
        self._key = secrets.token_bytes(32)
        self._right: OrderedDict[str, bytes] = OrderedDict()
        self._wrong: OrderedDict[bytes, None] = OrderedDict()

    def configure(self, password: ConsolePassword, secret: SecretStr) -> None:
        """Compare with the ``secret`` of this password from now on."""
        if password != self._configured:
            self._configured = password
            self._derived = self._thread.submit(self._derive, secret.get_secret_value(), password.seed)
            self._right.clear()
            self._wrong.clear()

    @property
    def keys_now(self) -> PasswordKeys | None:
        """The keys of the configured password, None while they are being made."""
        made = self._derived
        return made.result() if made and made.done() and not made.cancelled() else None

    async def keys(self) -> PasswordKeys:
        """Return the keys of the configured password. Call ``configure`` before."""
        assert self._derived  # noqa: S101  (``configure`` comes first)
        if (keys := self.keys_now) is not None:
            return keys
        # A client that leaves must not cancel what others wait for.
        return await asyncio.shield(asyncio.wrap_future(self._derived))

    async def is_right(self, password: str, address: str, browser: str = "") -> bool:
        """Return whether this is the password. Raises TooOftenError.

        Failures count for the ``address``, or for a ``browser`` that has logged in before.

        A right password is remembered for the one who sent it, so that a program pays for scrypt once. A wrong one is
        remembered, too: a program that sends it again and again keeps no one else out.
        """
        keys, digest = await self.keys(), self._digest(password)
        who = f"browser {browser}" if browser else network_of(address)
        known = bool(browser) or who in self._right
        if wait_s := self._back_off.wait_s(who, monotonic(), known=known):
            raise TooOftenError(wait_s)
        if hmac.compare_digest(self._right.get(who, b""), digest):
            self._right.move_to_end(who)
            return True
        if len(password) > MAX_CHARS or digest in self._wrong:
            return False
        if self._waiting >= MAX_WAITING:
            raise TooOftenError(1)
        self._back_off.begin(who, monotonic(), known=known)
        is_right = await self._compare(password, keys)
        if keys is not self.keys_now:
            return False  # The configured password has just changed.
        if not is_right:
            _remember(self._wrong, digest, None)
            log.warning(
                "a wrong password for the console, from %s", address, extra={"event": "console login failed"}
            )
            return False
        self._back_off.succeed(who)
        _remember(self._right, who, digest)
        return True

    def _derive(self, password: str, seed: bytes | None) -> PasswordKeys:
        return derive_keys(password, find_session_keys(self._keys_file, seed))

    async def _compare(self, password: str, keys: PasswordKeys) -> bool:
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._thread, derive_keys, password, keys.installation)
        finally:
            self._waiting -= 1
        return hmac.compare_digest(found.verifier, keys.verifier)

    def close(self) -> None:
        """Begin no more work."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _digest(self, password: str) -> bytes:
        return hmac.new(self._key, password.encode("utf-8", "replace"), hashlib.sha256).digest()


def _remember[K, V](found: OrderedDict[K, V], key: K, value: V) -> None:
    found[key] = value
    found.move_to_end(key)
    if len(found) > _MAX_REMEMBERED:
        found.popitem(last=False)
