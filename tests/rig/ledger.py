"""Ledger rows as the gateway creates them, and a second connection to read the file."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import structs
from pydantic import SecretStr

from addon.calls.attempt import UpstreamAttempt
from addon.dialects.http_request import UpstreamEndpoint, UpstreamRequest
from addon.store.money.price_set_schema import NOT_KEPT
from policies.attempt_ends import ATTEMPT_ENDS
from policies.call_stages import Stage
from policies.exchange import NO_TARGET, Exchange
from policies.family import Family
from policies.ledger_row import PRICE_SET_CONTENT, make_ledger_row
from policies.model import Key, Model, Workspace
from policies.prices import Prices
from policies.provider import Provider
from policies.route import Route, Target
from policies.sanitize import Sanitized
from policies.spend import Hold
from policies.usage import Usage

_PRICES = Prices(1, 1, 1)
_MODEL = Model(
    slug="tester-large",
    provider=Provider("TESTER", "https://example.invalid", "openai", ()),
    upstream_model_id="large-2026",
    family=Family("chat"),
    wholesale=_PRICES,
    retail=_PRICES,
    max_completion_tokens=100,
    byok_only=False,
    active=True,
)
_KEY = Key("ci", "0" * 64)


def route_fields(*targets: Target, decided_by: str = "pinned", made: int = 1) -> dict[str, Any]:
    """Return the fields of an exchange that are its route, after ``made`` attempts."""
    return {
        "route": Route(targets, decided_by),
        "target": targets[max(made, 1) - 1],
        "next_target": targets[made] if made < len(targets) else NO_TARGET,
        "attempts": made,
    }


_EXCHANGE = Exchange(
    id="call-0",
    created_at=datetime(2026, 1, 31, 12, tzinfo=UTC),
    started_s=1.0,
    stage=Stage.ANSWERED,
    workspace=Workspace("acme", "Acme", "standard", (_KEY,)),
    key=_KEY,
    requested_model="tester-large",
    **route_fields(Target(_MODEL, "payg", SecretStr("not-a-real-key"))),
    status=200,
    finish_reason="stop",
    usage=Usage(prompt_tokens=10, completion_tokens=5, total_tokens=15),
    usage_source="provider",
    wholesale_nanousd=1500,
    retail_nanousd=1560,
    first_byte_s=1.010,
)


def answered_exchange(family: Family, **changes: Any) -> Exchange:
    """Return the exchange of a call whose model is of ``family``."""
    target = replace(_EXCHANGE.target, model=replace(_MODEL, family=family))
    return structs.replace(_EXCHANGE, **route_fields(target) | changes)


def upstream_attempt(exchange: Exchange, **changes: Any) -> UpstreamAttempt:
    """Return the sent attempt that answered ``exchange``."""
    target = exchange.target
    facts: dict[str, Any] = {
        "target": target,
        "key_target": target,
        "hold": Hold(1, 1),
        "cap_tokens": None,
        "sanitized": Sanitized({}, tuple),
        "request": UpstreamRequest(UpstreamEndpoint("https://example.invalid/", ()), b""),
        "dropped": None,
        "streams": exchange.stream,
        "is_sent": True,
    }
    return UpstreamAttempt(**facts | changes)


def make_row(row_id: str = "call-0", **changes: Any) -> dict[str, Any]:
    """Return a row as the gateway creates it, with ``changes``. Its cost may be any, so it names no price set."""
    row = make_ledger_row(structs.replace(_EXCHANGE, id=row_id), now_s=1.025)
    del row[PRICE_SET_CONTENT], row[ATTEMPT_ENDS]
    return row | {"price_set": NOT_KEPT} | changes


def make_priced_row(row_id: str = "call-0", prices: Prices = _PRICES, **facts: Any) -> dict[str, Any]:
    """Return a row with its price set, and what carries it to the ledger. Costs and counts are among ``facts``.

    The set has ``prices`` at wholesale and, unless ``retail`` is another of the facts, at retail. ``model`` has more
    facts of the model.
    """
    of_model = {"wholesale": prices, "retail": facts.pop("retail", prices)} | facts.pop("model", {})
    target = replace(_EXCHANGE.target, model=replace(_MODEL, **of_model))
    if facts.pop("byok", False):
        target = replace(target, mode="byok")
    return make_ledger_row(structs.replace(_EXCHANGE, id=row_id, target=target, **facts), now_s=1.025)


@contextmanager
def second_connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


@contextmanager
def locked_by_another(path: Path) -> Iterator[None]:
    with second_connection(path) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def read_rows(path: Path) -> list[dict[str, Any]]:
    with second_connection(path) as reader:
        return [dict(row) for row in reader.execute("SELECT * FROM usage ORDER BY rowid")]


def read_ids(path: Path) -> list[str]:
    return [row["id"] for row in read_rows(path)]
