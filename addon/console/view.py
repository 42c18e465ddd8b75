"""``Reading``: the input of a view, and ``View``: its content."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from addon.console.query import Query
from addon.console.sources import Live
from addon.settings.settings import Settings
from addon.store.money.ledger import Ledger
from addon.text.table import Table


class NotFoundError(Exception):
    """The page does not exist. ``str`` says what was not found."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The input of a view: one moment of the gateway, and what the URL asks for.

    ``names`` are the variable parts of the path. ``ledger`` can't write. ``form`` has the fields that were posted to a
    page that changes nothing, None for a page that is only asked for.
    """

    settings: Settings
    ledger: Ledger
    live: Live
    now: datetime
    query: Query
    names: Sequence[str] = ()
    form: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class View:
    """The content of a page. ``values`` and ``tables`` are also its JSON, and each table is its CSV.

    ``values`` are values of JSON. Columns have the names and exact units of the ledger. ``shown`` is what only the page
    has, such as charts. ``errors`` are the fields of a form that are wrong, each with its reason: the status is 400.
    """

    tables: Mapping[str, Table]
    values: Mapping[str, Any] = field(default_factory=dict)
    shown: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
