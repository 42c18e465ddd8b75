"""``SessionKeys``: the random keys of an installation, which sign sessions and salt the hash of the password.

They are in a file next to the ledger. Without the file they are derived from the master key, so machines that share it
share sessions; without that, too, the first process makes the file. So a session survives a restart and a takeover, and
nothing that a browser gets helps to guess the password.
"""

import hmac
import logging
import secrets
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from addon.runtime.atomic_files import create_atomically
from addon.settings.sources import Sources

log = logging.getLogger("tollgate.console")

COST: Final = 2**15
"""With it, scrypt takes 32 MiB and about a tenth of a second."""

MAX_COST: Final = 2**17


class SessionKeys(BaseModel):
    """Two random keys in hex, and the cost of the password's hash: ``n`` of scrypt, a power of two."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    signing: Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z", repr=False)]
    salt: Annotated[str, Field(pattern=r"\A[0-9a-f]{32}\z", repr=False)]
    scrypt_n: Annotated[int, Field(ge=2, le=MAX_COST)] = COST

    @field_validator("scrypt_n")
    @classmethod
    def _check_power(cls, number: int) -> int:
        if number.bit_count() != 1:
            raise ValueError("must be a power of two")
        return number


def find_session_keys(file: Path, seed: bytes | None) -> SessionKeys:
    """Return the keys of ``file``, else those that ``seed`` gives. Make the file where there is neither.

    Return new keys, and log why, when the file can't be read or made.
    """
    try:
        return _read_or_make(file, seed)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        log.warning(
            "sessions of the console end with this process: %s: %s",
            file,
            reason,
            extra={"event": "console sessions not kept"},
        )
        return _make()


def _read_or_make(file: Path, seed: bytes | None) -> SessionKeys:
    # A master key that is made later, with the first sealed secret, must not end sessions. So the file counts first.
    try:
        return _read(file)
    except FileNotFoundError:
        if seed is not None:
            return SessionKeys(signing=_derive(seed, "signing", 32), salt=_derive(seed, "salt", 16))
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The keys of another process may have come first.
        create_atomically(file, f"{_make().model_dump_json()}\n")
        return _read(file)


def _read(file: Path) -> SessionKeys:
    content = Sources().read_secret(file, owner_only=True)
    try:
        return SessionKeys.model_validate_json(content)
    except ValidationError:
        # Its own message would show the keys.
        raise ValueError("holds no session keys; remove it, and restart the gateway") from None


def _make() -> SessionKeys:
    return SessionKeys(signing=secrets.token_hex(32), salt=secrets.token_hex(16))


def _derive(seed: bytes, name: str, size: int) -> str:
    return hmac.digest(seed, name.encode(), "sha256")[:size].hex()
