"""Edits of the customer's own keys for providers (BYOK): set, change and remove one.

A secret is sealed before it reaches a plan, so no plan, difference or file has it in clear text.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from addon.edits.toml_lines import Changes, Value, add_named_table, describe_changes, set_table_values
from addon.edits.toml_tables import remove_named_table
from addon.edits.workspace_files import EditError, Plan, plan_edit, read_file
from addon.settings.errors import suggest_name
from addon.settings.sealed_secrets import SCHEME
from addon.settings.secrets import load_master_keys
from addon.settings.sources import Sources

TABLE = "byok"


def find_no_master_key(master_file: Path, env: Mapping[str, str] = os.environ) -> str | None:
    """Return why no secret can be sealed, None when it can. For ``master_file`` see ``read_master_keys``."""
    try:
        load_master_keys(env, Sources(), master_file)
    except ValueError as error:
        return str(error)
    return None


def seal_secret(text: str, master_file: Path, env: Mapping[str, str] = os.environ) -> str:
    """Return a secret sealed with the first master key.

    Raises ``ValueError``, which shows no part of the text.
    """
    secret = text.strip()
    if not secret:
        raise ValueError("is empty")
    if secret.startswith(SCHEME):
        raise ValueError("is sealed already; type the secret itself, which is sealed here")
    if secret.startswith(("env:", "file:")):
        raise ValueError(
            "is the place of a secret, not a secret; the text of the file takes it if [admin] references allows it"
        )
    return SCHEME + load_master_keys(env, Sources(), master_file).seal(secret)


def plan_own_key(folder: Path, workspace: str, provider: str, changes: Changes) -> Plan:
    """Plan to set ``secret`` or ``routing`` of a provider. A new one needs a secret.

    Raises ``EditError``, or ``SettingsError`` where the file does not load.
    """
    read = read_file(folder, workspace)
    if provider in read.raw.get(TABLE, {}):
        summary = (
            f"Change the own key for {provider} of the workspace {workspace}: {describe_changes(changes)}"
        )
        return plan_edit(read, lambda text: set_table_values(text, changes, TABLE, provider), summary)
    values: dict[str, Value] = {
        name: value for name in ("secret", "routing") if (value := changes.get(name)) is not None
    }
    if "secret" not in values:
        raise EditError(f"workspace {workspace} has no own key for {provider} yet, so a secret is needed")
    summary = f"Give the workspace {workspace} an own key for {provider}"
    return plan_edit(read, lambda text: add_named_table(text, values, TABLE, provider), summary)


def plan_own_key_removal(folder: Path, workspace: str, provider: str) -> Plan:
    """Plan to remove a provider's table, with its comments. Raises as ``plan_own_key``."""
    read = read_file(folder, workspace)
    known = read.raw.get(TABLE, {})
    if provider not in known:
        raise EditError(
            f'workspace {workspace} has no own key for "{provider}"{suggest_name(provider, known)}'
        )
    summary = f"Remove the own key for {provider} of the workspace {workspace}"
    return plan_edit(read, lambda text: remove_named_table(text, TABLE, provider), summary)
