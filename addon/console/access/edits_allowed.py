"""Whether the console may change files, and why not."""

import os
from pathlib import Path
from typing import Final

from addon.settings.settings import Settings

NO_CHANGES: Final = "Changes need a password: set [admin] console_password."


def find_edit_obstacle(settings: Settings, unwritable: Path | None = None) -> str | None:
    """Return in one line why the console may not change files, None when it may. Does no input or output.

    ``unwritable`` is what ``find_unwritable`` found.
    """
    admin = settings.conf.admin
    if admin.edits is False:
        return "Changes are off: [admin] edits is false."
    if settings.console_password is None:
        return NO_CHANGES
    if settings.console_password.secret is None:
        return f"Changes need a password: {settings.console_password.fault}."
    if admin.edits is True:
        return None
    if settings.conf.ledger.url and not settings.conf.paths.are_workspaces_in_ledger:
        return (
            "With [ledger] url each machine has its own files, so changes are off."
            ' Set [paths] workspaces = "ledger", or [admin] edits = true if all machines read these files.'
        )
    if unwritable:
        return f"The gateway can't write {unwritable}, so changes are off."
    return None


def find_unwritable(*paths: Path) -> Path | None:
    """Return the first of ``paths`` that exists and that this process can't write, or None."""
    return next((path for path in paths if path.exists() and not os.access(path, os.W_OK)), None)
