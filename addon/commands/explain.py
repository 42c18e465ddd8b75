"""``tollgate explain``: what would happen to a call. Nothing is sent, taken or written.

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
from policies.call_stages import Stage
from policies.exchange import Exchange
from policies.model import Key, Workspace

STDIN = "-"

_OF_THIS_SHELL = "Keys are those of this shell's environment, which may not be the gateway's."


@click.command("explain")
@click.argument("file", metavar="FILE")
@click.option(
    "--workspace", "workspace_id", metavar="W", required=True, help="The workspace that makes the call."
)
@click.option(
    "--key", "key_id", metavar="ID", help="The API key that it uses.  [default: the first active one]"
)
@json_option
@conf_option
def explain_command(file: str, workspace_id: str, key_id: str | None, as_json: bool, conf_file: Path) -> None:
    """Show what would happen to a chat request with the body in FILE ("-": standard input), and why.

    Nothing is sent or written. The exit status is 0 also when the call would be refused.
    """
    with report_errors():
        settings = load_served_settings(conf_file)
        workspace = settings.workspaces.get(workspace_id)
        if workspace is None:
            raise unknown_workspace_error(workspace_id, settings.workspaces)
        key = _find_key(workspace, key_id)
        content = _read_body(file)
        with _open_counters(settings.conf) as counted:
            explanation = explain(_make_admitted_call(settings, workspace, key), content, counted)
    hints = _find_hints(explanation, settings, workspace)
    format_ = format_explanation_json if as_json else format_explanation
    click.echo(format_(workspace.id, key.id, explanation, hints))


def _find_key(workspace: Workspace, key_id: str | None) -> Key:
    if key_id is None:
        # When each key is refused, explain why the calls of the first are.
        now = datetime.now(UTC)
        active_first = sorted(workspace.keys, key=lambda key: key.why_refused(now) is not None)
        if not active_first:
            raise click.ClickException(
                f"workspace {workspace.id} has no key: tollgate keys create {workspace.id}"
            )
        return active_first[0]
    by_id = {key.id: key for key in workspace.keys}
    if key_id not in by_id:
        raise click.ClickException(
            f'unknown key "{key_id}" of workspace {workspace.id}{suggest_name(key_id, by_id)}'
        )
    return by_id[key_id]


def _read_body(file: str) -> bytes:
    return sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()


def _make_admitted_call(settings: Settings, workspace: Workspace, key: Key) -> Call:
    """Return a call after the limiter. Builtin providers get a placeholder: only ``serve`` has their URL and key."""
    exchange = Exchange("explain", datetime.now(UTC), 0.0, Stage.ADMITTED, workspace, key)
    return Call(exchange, settings.with_builtin_url(BUILT_IN_URL, SecretStr("-")))


@contextmanager
def _open_counters(conf: ProxyConf) -> Iterator[Counted]:
    with open_ledger(conf.paths.database) as ledger, ExitStack() as stack:
        found: Counted
        try:
            found = stack.enter_context(open_counters(conf, ledger))
        except StoreUnavailable as error:
            found = error
        yield found


def _find_hints(explanation: Explanation, settings: Settings, workspace: Workspace) -> list[str]:
    """Return hints for an explanation that may differ in the gateway, whose environment may have other keys."""
    providers = [attempt.target.model.provider for attempt in explanation.attempts]
    if settings.conf.sandbox.enabled == "auto" and any(provider.builtin for provider in providers):
        return ["The built-in provider serves while no provider key is set.", _OF_THIS_SHELL]
    is_key_missing = explanation.no_fallback_reason is not None and " key" in explanation.no_fallback_reason
    may_lack = is_key_missing or _may_lack_a_key(explanation.refused, settings)
    return [_OF_THIS_SHELL] if may_lack and _lacks_keys(settings, workspace) else []


def _lacks_keys(settings: Settings, workspace: Workspace) -> bool:
    platform = [provider.platform_secret for provider in settings.providers.values() if not provider.builtin]
    return None in platform or any(byok.secret is None for byok in workspace.byok.values())


def _may_lack_a_key(refused: Refused | None, settings: Settings) -> bool:
    """Return whether a missing platform key may be the cause of a refusal.

    Other causes are a model that the catalog turns off or limits to customers' own keys, and a builtin model, which is
    off because there are keys.
    """
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
