"""The caller of an explained call: its workspace, its key, and the counters of its limits."""

from collections.abc import Mapping
from datetime import UTC, datetime

from pydantic import SecretStr

from addon.apis import APIS
from addon.calls.call_state import Call
from addon.edits.workspace_files import unknown_workspace_error
from addon.explain.explaining import BUILT_IN_URL, Counted
from addon.settings.errors import suggest_name
from addon.settings.settings import Settings
from addon.store.money.ledger import Ledger
from addon.store.money.reports.report import ledger_counters
from addon.store.protocol import StoreUnavailable
from policies.call_stages import Stage
from policies.exchange import Exchange
from policies.model import Key, Workspace


class UnknownCallerError(Exception):
    """The workspace or the key does not exist. ``field`` is the one at fault. ``str`` is one line."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


def find_workspace(workspaces: Mapping[str, Workspace], workspace_id: str) -> Workspace:
    """Return the workspace that makes the call. Raises ``UnknownCallerError``."""
    workspace = workspaces.get(workspace_id)
    if workspace is None:
        raise UnknownCallerError("workspace", str(unknown_workspace_error(workspace_id, workspaces)))
    return workspace


def find_key(workspace: Workspace, key_id: str | None) -> Key:
    """Return a key of the workspace. Without ``key_id``, return the first active one. Raises ``UnknownCallerError``."""
    if key_id is None:
        # When each key is refused, explain why the calls of the first are.
        now = datetime.now(UTC)
        active_first = sorted(workspace.keys, key=lambda key: key.why_refused(now) is not None)
        if not active_first:
            reason = f"workspace {workspace.id} has no key: tollgate keys create {workspace.id}"
            raise UnknownCallerError("workspace", reason)
        return active_first[0]
    by_id = {key.id: key for key in workspace.keys}
    if key_id not in by_id:
        reason = f'unknown key "{key_id}" of workspace {workspace.id}{suggest_name(key_id, by_id)}'
        raise UnknownCallerError("key", reason)
    return by_id[key_id]


def make_admitted_call(settings: Settings, workspace: Workspace, key: Key, api: str = "chat") -> Call:
    """Return a call of an API of ``APIS`` after the limiter.

    Builtin providers get a placeholder: only ``serve`` has their URL and key.
    """
    exchange = Exchange("explain", datetime.now(UTC), 0.0, Stage.ADMITTED, workspace, key)
    return Call(exchange, settings.with_builtin_url(BUILT_IN_URL, SecretStr("-")), api=APIS[api])


def find_counted(ledger: Ledger) -> Counted:
    """Return a reader of the current counters, or the reason why they can't be read."""
    try:
        return ledger_counters(ledger)
    except StoreUnavailable as error:
        return error
