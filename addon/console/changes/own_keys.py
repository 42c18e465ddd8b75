"""The forms of a customer's own keys for providers (BYOK): add, change and remove one."""

from collections.abc import Mapping, Sequence
from typing import Final

from addon.console.changes.field import DIGEST, Field, FieldErrors, show_value
from addon.console.changes.file_change import FileChange
from addon.console.changes.form import Change, Form, RequestedChange
from addon.console.changes.workspaces import read_digest, read_for_form
from addon.edits.own_keys import (
    TABLE,
    find_no_master_key,
    plan_own_key,
    plan_own_key_removal,
)
from addon.edits.workspace_files import EditError, hash_content
from addon.settings.settings import Settings
from addon.settings.workspace_builder import can_take_keys

MAX_SECRET_CHARS: Final = 20_000
SEALED: Final = "The secret is sealed with the gateway's master key. No page, log or difference shows it."


def _find_obstacle(settings: Settings) -> str | None:
    fault = find_no_master_key(settings.conf.paths.master_keys)
    return fault and f"No secret can be sealed here: {fault}. Make one with: tollgate secrets key"


def _find_providers(settings: Settings) -> Sequence[str]:
    return sorted(name for name, provider in settings.providers.items() if can_take_keys(provider))


def _read_own_key(asked: RequestedChange) -> Mapping[str, str]:
    read, provider = read_for_form(asked), asked.names["provider"]
    own = read.table.byok.get(provider)
    if own is None:
        raise EditError(f"workspace {asked.workspace} has no own key for {provider}")
    routing = read.raw[TABLE][provider].get("routing")
    return {"routing": show_value(routing), DIGEST.name: hash_content(read.content)}


def _plan_add(asked: RequestedChange) -> Change:
    provider = asked.values["provider"]
    known = _find_providers(asked.files.settings)
    if provider not in known:
        raise FieldErrors({"provider": f"must be one of {', '.join(known)}"})
    if provider in read_for_form(asked).table.byok:
        raise FieldErrors({"provider": "has an own key already; change that one"})
    values = {name: asked.values[name] for name in ("secret", "routing")}
    plan = plan_own_key(asked.files.folder, asked.workspace, provider, values)
    return FileChange(asked.require_same_file(plan), None, [SEALED], sealed={values["secret"]})


def _plan_set(asked: RequestedChange) -> Change:
    secret = asked.values["secret"]
    changes = {**asked.find_changes(["routing"]), **({} if secret is None else {"secret": secret})}
    plan = plan_own_key(asked.files.folder, asked.workspace, asked.names["provider"], changes)
    if secret is None:
        return FileChange(asked.require_same_file(plan))
    return FileChange(asked.require_same_file(plan), None, [SEALED], sealed={secret})


def _plan_remove(asked: RequestedChange) -> Change:
    plan = plan_own_key_removal(asked.files.folder, asked.workspace, asked.names["provider"])
    return FileChange(asked.require_same_file(plan), None)


def _make_secret_field(hint: str, *, is_required: bool) -> Field:
    return Field(
        "secret",
        "Secret",
        str,
        f"{hint} A service account is the JSON of its key; AWS is ACCESS_KEY_ID:SECRET_ACCESS_KEY.",
        "password",
        is_required=is_required,
        max_chars=MAX_SECRET_CHARS,
    )


_ROUTING: Final = Field(
    "routing",
    "Use it for routing",
    lambda text: text == "true",
    "Whether calls to this provider's models use the key, and cost the platform nothing.",
    "select",
    [("", "not set: off"), ("true", "on"), ("false", "off")],
)

ADD: Final = Form(
    action="byok add",
    title="Add an own key (BYOK)",
    plan=_plan_add,
    fields=(
        DIGEST,
        Field("provider", "Provider", kind="select", is_required=True),
        _make_secret_field("The customer's key of the provider.", is_required=True),
        _ROUTING,
    ),
    current=read_digest,
    intro=SEALED,
    suggest=lambda settings: {"provider": _find_providers(settings)},
    find_obstacle=_find_obstacle,
)
SET: Final = Form(
    action="byok set",
    title="Change the own key",
    plan=_plan_set,
    names=("workspace", "provider"),
    fields=(
        DIGEST,
        _make_secret_field("If empty, the secret stays as it is.", is_required=False),
        _ROUTING,
    ),
    current=_read_own_key,
    intro=SEALED,
    find_obstacle=_find_obstacle,
)
REMOVE: Final = Form(
    action="byok remove",
    title="Remove the own key",
    plan=_plan_remove,
    names=("workspace", "provider"),
    fields=(DIGEST,),
    current=_read_own_key,
    intro="The calls that used it are then served with the platform's key, or refused.",
    is_final=True,
)
