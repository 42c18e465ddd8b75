"""The edits of commands for tests that are about files: without an audit log."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from addon.edits import keys, revocation, workspaces
from addon.edits.recording import ChangeRecord, Recording


@contextmanager
def unrecorded(_: ChangeRecord) -> Iterator[Recording]:
    """Let a change be made without a line."""
    yield Recording()


create_key = partial(keys.create_key, record=unrecorded)
set_key = partial(keys.set_key, record=unrecorded)
rotate_key = partial(keys.rotate_key, record=unrecorded)
revoke_key = partial(revocation.revoke_key, record=unrecorded)
create_workspace = partial(workspaces.create_workspace, record=unrecorded)
set_workspace = partial(workspaces.set_workspace, record=unrecorded)
