"""``ChangeMaker``: shows and makes changes, one after the other, in a thread away from the event loop of the calls."""

import asyncio
import logging
import re
import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from addon.console.access.edits_allowed import find_edit_obstacle, find_unwritable
from addon.console.changes.field import FieldErrors, parse_fields, refuse_secrets
from addon.console.changes.file_change import UneditableFileError
from addon.console.changes.form import Change, EditedFiles, Form, RequestedChange
from addon.console.changes.making import Requester, make_change
from addon.console.changes.recording import refresh_files
from addon.console.changes.waiting import SECRET_S, ExpiringValues, PendingChange, Preview, Result
from addon.edits.known_secrets import mask_known_secrets
from addon.edits.own_keys import seal_secret
from addon.edits.workspace_files import EditError, lock_workspaces
from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.settings.errors import SettingsError, describe_error
from addon.settings.settings import Settings, SettingsFiles
from addon.store.backends import find_ledger
from addon.store.money.audit.audit import AuditLog
from addon.store.money.audit.audit_evidence import judge
from addon.store.money.ledger import CHANGE_S
from addon.store.protocol import StoreUnavailable
from addon.text.masking import mask_credentials

log = logging.getLogger("tollgate.console")

MAX_WAITING: Final = 16
AWAY: Final = "The ledger can't be reached now, so no change can be made. This is its last copy here: {}"
FROM_COPY: Final = (
    "The ledger can't be reached now. This is the difference from its last copy here; you can confirm it as soon as the"
    " ledger is back: {}"
)


class BusyError(Exception):
    """Too many changes wait already. ``str`` is one line for people."""

    def __init__(self) -> None:
        super().__init__("Too many changes are asked for at once. Try again.")


class RefusedError(Exception):
    """The change can't be made. ``str`` is one line for people.

    ``is_file_broken``: a file does not load. ``command`` is one that makes the change all the same, if there is one.
    """

    def __init__(self, message: str, *, is_file_broken: bool = False, command: str = "") -> None:
        super().__init__(message)
        self.is_file_broken = is_file_broken
        self.command = command


class UnavailableError(RefusedError):
    """The change can't be made now, such as while another program has the ledger locked."""


class ChangeMaker:
    """The changes of one console. ``settings`` returns the settings in use, which were loaded from ``files``."""

    def __init__(
        self, settings: Callable[[], Settings], files: SettingsFiles, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._settings = settings
        self._files = files
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="changes")
        self._in_work = 0
        self.waiting: ExpiringValues[PendingChange] = ExpiringValues(clock)
        self.results: ExpiringValues[Result] = ExpiringValues(clock)

    def find_edit_obstacle(self) -> str | None:
        """Return in one line why nothing may be changed, None when it may."""
        settings = self._settings()
        return find_edit_obstacle(settings, find_unwritable(settings.conf.paths.workspaces))

    async def read_current(self, form: Form, names: Mapping[str, str]) -> Mapping[str, str]:
        """Return the texts of the fields now. Raises RefusedError and BusyError."""
        asked = self._ask(form, names)
        return await self._run(lambda: form.current(asked))

    async def find_obstacle(self, form: Form) -> str | None:
        """Return why no change can be made with a form now, None when one can. Raises BusyError.

        It looks for what other machines have changed, so the texts that are read next are the newest.
        """
        settings = self._settings()

        def find() -> str | None:
            fault = refresh_files(settings.conf)
            return form.find_obstacle(settings) or (fault and AWAY.format(fault))

        return await self._run(find)

    def suggest(self, form: Form) -> Mapping[str, Sequence[str]]:
        """Return texts that may be typed into the fields of a form."""
        return form.suggest(self._settings())

    async def show(
        self, form: Form, names: Mapping[str, str], typed: Mapping[str, str], session: str = ""
    ) -> str:
        """Find out what a change would do. Return the token of its ``PendingChange``, which only ``session`` may use.

        Raises ``FieldErrors``, RefusedError and BusyError.
        """
        # A secret does not wait for the confirmation as it was typed.
        kept = {one.name: typed.get(one.name, "") for one in form.fields if one.kind != "password"}
        empty = replace(self._ask(form, names), typed=kept)

        def plan() -> tuple[RequestedChange, Change, Preview]:
            refuse_secrets(form.fields, typed, lambda text: mask_known_secrets(text, empty.files.settings))
            master_file = empty.files.settings.conf.paths.master_keys
            values = parse_fields(form.fields, typed, lambda text: seal_secret(text, master_file))
            asked = replace(empty, values=values, random_id=secrets.token_hex(16))
            fault = refresh_files(empty.files.settings.conf)
            try:
                change = form.plan(asked)
                notes = [*change.notes, *([FROM_COPY.format(fault)] if fault else [])]
                return asked, change, Preview(change.summary, change.lines, change.check(asked.files), notes)
            except SettingsError as error:
                raise place_error(error, asked) from None

        asked, change, preview = await self._run(plan)
        return self.waiting.put(PendingChange(asked, change.digest, preview), session)

    async def confirm(self, waiting: PendingChange, requester: Requester) -> str:
        """Make a change, and return the name of its result. A repeated confirmation returns the same name.

        Raises RefusedError and BusyError. After UnavailableError and BusyError, it can be asked again.
        """
        making = waiting.making
        if making is None:
            waiting.fault = ""
            making = waiting.making = asyncio.create_task(self._run(lambda: self._make(waiting, requester)))
            making.add_done_callback(lambda made: self._forget_key(made, requester.session))
        try:
            # The change goes on when the client of one of its confirmations leaves.
            return await asyncio.shield(making)
        except (BusyError, UnavailableError) as error:
            if waiting.making is making:
                waiting.making, waiting.fault = None, mask_credentials(str(error))
            raise

    def end_abandoned_intents(self) -> None:
        """Begin to end the intents that dead processes left in the audit log."""
        if self.find_edit_obstacle() is None:
            self._thread.submit(self._end_abandoned_intents)

    def close(self) -> None:
        """Begin no more changes."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def forget(self, session: str) -> None:
        """Forget what waits for a session that has ended: its changes, and new keys that it has not seen."""
        self.waiting.drop(session)
        self.results.drop(session)

    def _forget_key(self, making: "asyncio.Task[str]", session: str) -> None:
        """Let a change that was made forget its new key after a minute. Its client may have left."""
        if making.cancelled() or making.exception():
            return
        if result := self.results.get(making.result(), session):
            making.get_loop().call_later(SECRET_S, result.take_key)

    def _ask(self, form: Form, names: Mapping[str, str]) -> RequestedChange:
        settings = self._settings()
        if settings.written.paths != settings.conf.paths:
            raise RefusedError("[paths] of proxy.conf has changed: restart the gateway first")
        return RequestedChange(
            EditedFiles(self._files, settings.conf.paths.workspaces, settings), form, names
        )

    async def _run[T](self, work: Callable[[], T]) -> T:
        if self._in_work >= MAX_WAITING:
            raise BusyError
        self._in_work += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except UneditableFileError as error:
            raise RefusedError(str(error), is_file_broken=True, command=error.command) from None
        except (EditError, SettingsError) as error:
            is_file_broken = isinstance(error, SettingsError)
            raise RefusedError(describe_error(error), is_file_broken=is_file_broken) from None
        except (StoreUnavailable, OSError, sqlite3.Error) as error:
            raise UnavailableError(describe_error(error)) from None
        finally:
            self._in_work -= 1

    def _make(self, waiting: PendingChange, requester: Requester) -> str:
        """Make a change. Return the name of its result."""
        return self.results.put(make_change(waiting, requester), requester.session)

    def _end_abandoned_intents(self) -> None:
        settings = self._settings()
        try:
            with lock_workspaces(settings.conf_file) as folder:
                place = find_ledger(settings.conf).bounded(CHANGE_S)
                AuditLog(place, folder).end_abandoned_intents(judge)
        except (SettingsError, StoreUnavailable, OSError) as error:
            log.warning(
                "changes of a process that died are not in the audit log yet: %s", describe_error(error)
            )


def place_error(error: SettingsError, asked: RequestedChange) -> Exception:
    """Return the error of a workspace's file as one of a field, if the key is one; else as it is."""
    name = re.sub(r"\[[0-9]+\].*", "", error.key.rpartition(".")[2])
    is_here = error.file == asked.files.folder / f"{asked.workspace}.toml"
    if not is_here or name not in [one.name for one in asked.form.fields]:
        return error
    return FieldErrors({name: error.reason if name == error.key else f"{error.key}: {error.reason}"})
