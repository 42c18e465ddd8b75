"""The folder that a supervisor shares with its workers, ``workers-HOST-PORT-*`` next to the ledger.

| file | written by | what |
|---|---|---|
| `settings.snapshot` | the supervisor | the last settings that loaded |
| `lock` | the supervisor | nothing; the supervisor has it locked as long as it lives |
| `question` | the supervisor | nothing; its time is the number of the last question for the workers' readiness |
| `worker-N.json` | worker N | its readiness, or the fault that ended it; touched as a sign of life |
| `*.db` | each worker | its metrics |
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from addon.runtime.folder_lock import hold_lock, is_locked
from addon.settings.settings import Settings

LOCK_FILE = "lock"


@contextmanager
def make_worker_folder(settings: Settings) -> Iterator[Path]:
    """Give a new folder to share with the workers. Remove those that killed supervisors of the same port have left.

    In a takeover, the running supervisor still has one: it has the file ``lock`` locked.
    """
    folder, listen = settings.conf.paths.database.parent, settings.conf.listen
    prefix = f"workers-{listen.host}-{listen.port}-"
    for old in folder.glob(f"{prefix}*"):
        if not is_locked(old / LOCK_FILE):
            shutil.rmtree(old, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A new name: workers of a killed supervisor may still drain, and write to their own folder.
    new = Path(tempfile.mkdtemp(prefix=prefix, dir=folder))
    try:
        with hold_lock(new / LOCK_FILE):
            yield new
    finally:
        shutil.rmtree(new, ignore_errors=True)
