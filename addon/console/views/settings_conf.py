"""proxy.conf as it is in force, key by key, for people. No secret and no place of a secret is in it."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from addon.settings import ledger_url, redis_url
from addon.settings.conf_schema import ProxyConf
from addon.settings.settings import NEEDS_RESTART, Settings
from addon.settings.store_urls import LEDGER_SCHEMES
from addon.settings.value_types import SecretReference
from addon.text.table import Table

COLUMNS = ("section", "key", "value", "in_file", "is_default", "needs_restart")


def make_conf_table(settings: Settings) -> Table:
    """Return each key of proxy.conf. ``in_file`` is what the file says where that is not in force."""
    return Table(COLUMNS, list(_make_rows(settings)))


def _make_rows(settings: Settings) -> Iterator[tuple[Any, ...]]:
    for section in ProxyConf.model_fields:
        in_force, written = getattr(settings.conf, section), getattr(settings.written, section)
        for key in type(in_force).model_fields:
            value, file_value = getattr(in_force, key), getattr(written, key)
            shown = describe_value(value)
            in_file = describe_value(file_value) if file_value != value else None
            is_default = key not in written.model_fields_set and in_file is None
            yield section, key, shown, in_file, is_default, section in NEEDS_RESTART


def describe_value(value: object) -> str:
    """Return a value as text. A value of an unknown type may be a secret, so it is not shown."""
    match value:
        case None:
            return ""
        case SecretReference():
            return f"a secret ({value.kind})"
        case SecretStr():
            text = value.get_secret_value()
            is_ledger = text.startswith(LEDGER_SCHEMES)
            return ledger_url.hide_credentials(text) if is_ledger else redis_url.hide_credentials(text)
        case bool():
            return "true" if value else "false"
        case str() | int() | float() | Decimal() | Path():
            return str(value)
        case tuple() | list():
            return ", ".join(describe_value(one) for one in value)
    return "not shown"
