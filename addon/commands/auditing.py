"""The audit log of commands: who makes a change, and its line. Source: docs/ledger.md, "The table ``audit``"."""

import os
import pwd
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import click

from addon.commands.fleet_copies import prepare_ledger
from addon.edits.recording import ChangeRecord, Record, Recording
from addon.fleet.copies import Copies
from addon.fleet.recording import EditedLedger, RevokingRecord
from addon.settings.conf_schema import ProxyConf
from addon.settings.errors import describe_error
from addon.settings.settings import load_conf
from addon.store.backends import find_ledger
from addon.store.money.audit.audit import AuditLine
from addon.store.money.audit.audit_evidence import find_folder
from addon.store.money.audit.audit_spool import AuditSpool
from addon.store.protocol import StoreUnavailable
from addon.text.unprintable import escape_unprintable

SOURCE: Final = "command"
_DRAIN_TIMEOUT_S: Final = 0.5
"""How long a command waits for a locked ledger after its change. Else a gateway or a later command writes the line."""


def find_user() -> str:
    """Return the user of the system who runs this process. Behind sudo also who called it, as sudo says."""
    number = os.getuid()
    try:
        user = pwd.getpwuid(number).pw_name
    except KeyError:
        user = f"uid {number}"
    caller = os.environ.get("SUDO_USER")
    return escape_unprintable(f"{user} (sudo: {caller})" if caller else user)


class CommandRecord:
    """The ``Record`` of one command: notes its changes on the disk, and writes their lines when it has ended.

    With ``must_not_stop``, a change is made even if it can't be noted. A warning says so.
    """

    def __init__(self, conf: ProxyConf, action: str, *, must_not_stop: bool = False) -> None:
        self._conf = conf
        self._spool = AuditSpool(conf.paths.database)
        self._action = action
        self._must_not_stop = must_not_stop
        self._has_changed = False
        if context := click.get_current_context(silent=True):
            # Afterwards, so that a locked ledger delays neither the change nor what the command prints.
            context.call_on_close(self._drain)

    @contextmanager
    def __call__(self, change: ChangeRecord) -> Iterator[Recording]:
        """Note a change that is made in the ``with`` block. Raises ``StoreUnavailable`` before it."""
        line = make_line(self._action, change)
        with suppress(OSError):
            self._spool.settle(find_folder(change.evidence))
        with ExitStack() as noted:
            try:
                recording = noted.enter_context(self._spool.record(line, change.evidence))
            except OSError as error:
                recording = self._go_on_without(error)
            yield recording
            self._has_changed |= recording.is_made

    def _go_on_without(self, error: OSError) -> Recording:
        reason = escape_unprintable(describe_error(error))
        if not self._must_not_stop:
            raise StoreUnavailable(
                f"nothing was changed, because it can't be noted for the audit log: {reason}"
            ) from None
        click.echo(f"warning: this change is not in the audit log: {reason}", err=True)
        return Recording()

    def _drain(self) -> None:
        try:
            self._spool.drain(find_ledger(self._conf), _DRAIN_TIMEOUT_S)
        except (OSError, StoreUnavailable) as error:
            if not self._has_changed:
                return  # What failed has said so itself.
            reason = escape_unprintable(describe_error(error))
            click.echo(f"the line of this change in the audit log is written later: {reason}", err=True)


def make_line(action: str, change: ChangeRecord) -> AuditLine:
    """Return the audit line of a change by a command."""
    return AuditLine(SOURCE, "", "", action, change.workspace, change.subject, change.text, find_user())


def record_in(conf_file: Path, action: str, *, must_not_stop: bool = False) -> Record:
    """Return the ``Record`` of a command in the ledger that a proxy.conf names. Raises ``SettingsError``.

    Where machines share the ledger, it also tells them which keys end, and has their workspace files.
    """
    conf = load_conf(conf_file)
    record = CommandRecord(conf, action, must_not_stop=must_not_stop)
    if not conf.ledger.url:
        return record
    if conf.paths.are_workspaces_in_ledger:
        return edit_ledger(conf, action, record)
    return RevokingRecord(find_ledger(conf), partial(make_line, action), record)


def edit_ledger(conf: ProxyConf, action: str, others: Record) -> EditedLedger:
    """Return the workspace files in the ledger, for a command to edit."""
    with suppress(StoreUnavailable):  # The edit then says why it can't be made.
        prepare_ledger(conf)
    return EditedLedger(find_ledger(conf), Copies(conf.paths.workspaces), partial(make_line, action), others)
