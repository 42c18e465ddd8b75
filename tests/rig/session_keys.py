"""The session keys of an installation whose hash of the console's password takes no time."""

import secrets
from pathlib import Path

from addon.console.access.session_keys import SessionKeys
from addon.settings.conf_schema import SESSION_KEYS_FILE


def write_cheap_session_keys(folder: Path) -> None:
    """Make the session keys of the installation whose ledger is in ``folder``, unless it has some."""
    file = folder / SESSION_KEYS_FILE
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        keys = SessionKeys(signing=secrets.token_hex(32), salt=secrets.token_hex(16), scrypt_n=2)
        file.touch(0o600)
        file.write_text(keys.model_dump_json())
