"""The password of the console."""

import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from addon.settings.conf_schema import Admin
from addon.settings.errors import SettingsError
from addon.settings.secrets import Secrets

MIN_CHARS: Final = 12
MAX_CHARS: Final = 1024


@dataclass(frozen=True, slots=True)
class ConsolePassword:
    """The password, or the reason why it can't be read. Then the console is closed.

    ``seed`` is 32 bytes that all machines with the same master key have, None without one.
    """

    secret: SecretStr | None
    fault: str = ""
    seed: bytes | None = field(default=None, repr=False)


def normalize_password(text: str) -> str:
    """Return the one form of a password, however a keyboard composes its characters. Pure."""
    return unicodedata.normalize("NFC", text.strip())


def load_console_password(admin: Admin, conf_file: Path, secrets: Secrets) -> ConsolePassword | None:
    """Return the password, or None when none is configured.

    Raises ``SettingsError`` when it is too short or too long, or not one line. A password that can't be read is no
    error: it closes the console, and must not decide whether a gateway starts.
    """
    if isinstance(admin.console_password, str):
        return None
    try:
        text = secrets.require(admin.console_password, conf_file.parent)
    except ValueError as error:
        return ConsolePassword(None, str(error))
    text = normalize_password(text)
    if reason := _find_fault(text):
        raise SettingsError(conf_file, "admin.console_password", reason)
    return ConsolePassword(SecretStr(text), seed=secrets.derive("console sessions"))


def _find_fault(text: str) -> str | None:
    if len(text) < MIN_CHARS:
        return f"the password is too short: it must have at least {MIN_CHARS} characters"
    if len(text) > MAX_CHARS:
        return f"the password is too long: it must have at most {MAX_CHARS} characters"
    if not text.isprintable():
        return "the password must be one line of printable characters"
    return None
