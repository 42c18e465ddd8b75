"""``tollgate explain``: what would happen to a call, without making it. Nothing is sent, taken or written.

Source: docs/commands.md.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click
from pydantic import SecretStr

from addon.calls.call_state import Call
from addon.commands.errors import report_errors, unknown_workspace_error
from addon.commands.explain_output import format_explanation, format_explanation_json
from addon.commands.options import conf_option, json_option
from addon.commands.readers import load_served_settings, open_ledger
from addon.explain.explanation import BUILT_IN_URL, Counted, Explanation, Refused, explain
from addon.settings.conf_schema import ProxyConf
from addon.settings.errors import suggest_name
from addon.settings.settings import Settings
from addon.store.backends import open_counters
from addon.store.protocol import StoreUnavailable
from policies.exchange import Exchange, Stage
from policies.model import Key, Workspace

STDIN = "-"

_OF_THIS_SHELL = "Keys are those of this shell's environment, which may not be the gateway's."


@click.command("explain")
@click.argument("file", metavar="FILE")
@click.option("--workspace", "workspace_id", metavar="W", required=True, help="Whose call it is.")
@click.option(
    "--key", "key_id", metavar="ID", help="With which of its API keys.  [default: the first active one]"
)
@json_option
@conf_option
def explain_command(file: str, workspace_id: str, key_id: str | None, as_json: bool, conf_file: Path) -> None:
    """Show what would happen to a chat request, the body of which is in FILE ("-": standard input), and why.

    Nothing is sent and nothing is written. A call that would be refused is an answer too: the exit status is 0.
    """
    with report_errors():
        settings = load_served_settings(conf_file)
        workspace = settings.workspaces.get(workspace_id)
        if workspace is None:
            raise unknown_workspace_error(workspace_id, settings.workspaces)
        key = _find_key(workspace, key_id)
        content = _read(file)
        with _counted(settings.conf) as counted:
            told = explain(_admitted(settings, workspace, key), content, counted)
    hints = _hints(told, settings, workspace)
    show = format_explanation_json if as_json else format_explanation
    click.echo(show(workspace.id, key.id, told, hints))


def _find_key(workspace: Workspace, key_id: str | None) -> Key:
    if key_id is None:
        # Where none is active, what is explained is why its calls are refused.
        by_use = sorted(workspace.keys, key=lambda key: not key.active)
        if not by_use:
            raise click.ClickException(
                f"workspace {workspace.id} has no key: tollgate keys create {workspace.id}"
            )
        return by_use[0]
    by_id = {key.id: key for key in workspace.keys}
    if key_id not in by_id:
        raise click.ClickException(
            f'unknown key "{key_id}" of workspace {workspace.id}{suggest_name(key_id, by_id)}'
        )
    return by_id[key_id]


def _read(file: str) -> bytes:
    return sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()


def _admitted(settings: Settings, workspace: Workspace, key: Key) -> Call:
    """A call that the limiter has let in. The addresses and keys of builtin providers are made by ``serve`` only."""
    exchange = Exchange("explain", datetime.now(UTC), 0.0, Stage.ADMITTED, workspace, key)
    return Call(exchange, settings.with_builtin_url(BUILT_IN_URL, SecretStr("-")))


@contextmanager
def _counted(conf: ProxyConf) -> Iterator[Counted]:
    with open_ledger(conf.paths.database) as ledger, ExitStack() as stack:
        found: Counted
        try:
            found = stack.enter_context(open_counters(conf, ledger))
        except StoreUnavailable as error:
            found = error
        yield found


def _hints(told: Explanation, settings: Settings, workspace: Workspace) -> list[str]:
    """Return what the environment of this shell may have decided otherwise than the gateway's."""
    providers = [attempt.attempt.model.provider for attempt in told.attempts]
    if settings.conf.sandbox.enabled == "auto" and any(provider.builtin for provider in providers):
        return ["The built-in provider serves while no provider key is set.", _OF_THIS_SHELL]
    is_alone_without_key = told.why_alone is not None and " key" in told.why_alone
    may_lack = is_alone_without_key or _may_lack_a_key(told.refused, settings)
    return [_OF_THIS_SHELL] if may_lack and _lacks_keys(settings, workspace) else []


def _lacks_keys(settings: Settings, workspace: Workspace) -> bool:
    platform = [provider.platform_secret for provider in settings.providers.values() if not provider.builtin]
    return None in platform or any(byok.secret is None for byok in workspace.byok.values())


def _may_lack_a_key(refused: Refused | None, settings: Settings) -> bool:
    """Tell it from a model that is turned off in the catalog, or for own keys only; a builtin one is turned off by keys
    that are there."""
    if refused is None or refused.step != "routing":
        return False
    models = settings.models.values()
    if refused.answer.code == "byok_required":
        keyless = [model.slug for model in models if model.needs_own_key and not model.byok_only]
        return any(f"'{slug}'" in refused.answer.message for slug in keyless)
    if refused.answer.code != "invalid_state":
        return False
    turned_off = [model.slug for model in models if not model.active and not model.provider.builtin]
    return not any(f"'{slug}'" in refused.answer.message for slug in turned_off)
