"""A change is made under the lock of the folder of workspaces."""

import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from rig.settings_files import ACME

from addon.console.changes import keys
from addon.console.changes.file_change import FileChange
from addon.console.changes.form import AppliedChange, Change, EditedFiles, RequestedChange
from addon.console.changes.maker import ChangeMaker
from addon.console.changes.making import Requester
from addon.edits.workspace_files import Write


@dataclass(frozen=True)
class WatchedChange(FileChange):
    """A change that calls ``watch`` when it is made."""

    watch: Callable[[], None] = field(kw_only=True)

    def apply(self, files: EditedFiles, write: Write) -> AppliedChange:
        self.watch()
        return super().apply(files, write)


def is_locked(folder: Path) -> bool:
    """Return whether someone has the lock of a folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


async def test_a_change_is_planned_again_and_made_under_the_lock(maker: ChangeMaker, conf: Path) -> None:
    """So no command that takes the lock writes the file in between."""
    folder = (conf.parent / ACME).parent
    held: list[bool] = []

    def plan(asked: RequestedChange) -> Change:
        held.append(is_locked(folder))
        change = keys.SET.plan(asked)
        assert isinstance(change, FileChange)
        return WatchedChange(change.plan, change.subject, watch=lambda: held.append(is_locked(folder)))

    token = await maker.show(
        replace(keys.SET, plan=plan), {"workspace": "acme", "key": "ci"}, {"label": "CI"}
    )
    waiting = maker.waiting.get(token, "")
    assert waiting is not None
    await maker.confirm(waiting, Requester("203.0.113.9", "0123456789abcdef"))
    assert held == [False, True, True]
