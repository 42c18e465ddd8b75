"""``/explain``: what would happen to a request, by the gateway's own steps. Nothing is sent or written."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from addon.apis import APIS
from addon.calls.call_state import Call
from addon.console.view import Reading, View
from addon.console.views.explain_examples import EXAMPLES
from addon.console.views.explain_shown import make_explanation_shown
from addon.console.views.workspace_shown import LIMIT_CELLS
from addon.explain.caller import (
    UnknownCallerError,
    find_counted,
    find_key,
    find_workspace,
    make_admitted_call,
)
from addon.explain.explaining import explain
from addon.explain.explanation import CAP_NAMES
from addon.explain.following import Following
from addon.explain.hints import BUILT_IN_HINT, serves_built_in
from addon.explain.places import KnownStates, LeftOut, read_circuits
from addon.explain.records import make_explanation_record
from addon.store.money.reports.wallet_credits import find_last_credits
from addon.text.masking import mask_credentials
from addon.text.table import Table
from policies.request_facts import RequestFacts
from policies.routing import find_matches

MAX_LISTED: Final = 200
"""More workspaces or keys than these are typed, not chosen."""


def load_explain(reading: Reading) -> View:
    """Return the form, or the explanation of the request that was posted with it."""
    form = reading.form if reading.form is not None else _fill_form(reading)
    shown = {
        **{"form": form, **_list_choices(reading, form), "examples": EXAMPLES, "explained": None},
        **{"apis": list(APIS), "part_of": _part_of, "limit_cells": LIMIT_CELLS},
    }
    tables = {"examples": Table(("example", "body"), [(one.name, one.body) for one in EXAMPLES])}
    if reading.form is None:
        return View(tables, {}, shown)
    form = {"api": "chat", **form}
    if errors := _find_missing(form):
        return View(tables, {}, shown, errors)
    try:
        workspace = find_workspace(reading.settings.workspaces, form["workspace"].strip())
        key = find_key(workspace, form.get("key", "").strip() or None)
    except UnknownCallerError as error:
        return View(tables, {}, shown, {error.field: mask_credentials(str(error))})
    return _explain(
        reading, make_admitted_call(reading.settings, workspace, key, form["api"]), form["body"], shown
    )


def _find_missing(form: Mapping[str, str]) -> dict[str, str]:
    """Return an error for each empty field that an explanation needs."""
    missing = {
        name: f"Choose a {name}." if name == "workspace" else "Paste a request."
        for name in ("workspace", "body")
        if not form.get(name, "").strip()
    }
    return missing if form["api"] in APIS else missing | {"api": f"Choose one of {', '.join(APIS)}."}


def _explain(reading: Reading, call: Call, body: str, shown: Mapping[str, Any]) -> View:
    workspace, key = call.exchange.workspace, call.exchange.key
    content = body.encode("utf-8", "surrogatepass")
    circuits = read_circuits(reading.ledger, reading.settings)
    checks = {name: mask_credentials(found) for name, found in reading.live.readiness.checks.items()}
    states = KnownStates(circuits, checks)
    credits = find_last_credits(reading.ledger, [workspace.id])
    explanation = explain(call, content, find_counted(reading.ledger), credits, states)
    hints = [BUILT_IN_HINT] if serves_built_in(explanation, reading.settings) else []
    record = make_explanation_record(workspace.id, key.id, explanation, hints)
    tables = _make_tables(record)
    rules = find_matches(RequestFacts(call.chat.model, call.chat.fields), workspace) if call.chat else ()
    tables["rules"] = Table(("rule", "model", "matched"), list(rules))
    explained = make_explanation_shown(workspace.id, key.id, explanation, hints, body)
    return View(tables, record, {**shown, "explained": explained})


def _part_of(table: Table, attempt: int) -> Table:
    """Return the rows of one attempt."""
    return Table(table.columns, [row for row in table.rows if row[0] == attempt])


def _fill_form(reading: Reading) -> Mapping[str, str]:
    """Return the form as the URL asks for it, with the first workspace that can make a call."""
    chosen = reading.query.choice("example", [one.name for one in EXAMPLES], "")
    workspace = reading.query.text("workspace")
    if workspace is None:
        usable = (one.id for one in reading.settings.workspaces.values() if one.keys)
        workspace = min(usable, default="")
    body = next((one.body for one in EXAMPLES if one.name == chosen), "")
    return {"workspace": workspace, "key": reading.query.text("key") or "", "api": "chat", "body": body}


def _list_choices(reading: Reading, form: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the workspaces and keys to choose from, none where there are too many, and the form's that exist."""
    workspaces = reading.settings.workspaces
    chosen = workspaces.get(form.get("workspace", ""))
    keys = [key.id for key in chosen.keys] if chosen else []
    # A link has no text that was typed into the wrong field, such as a secret.
    known = {"workspace": chosen.id} if chosen else {}
    return {
        "known": known | ({"key": form["key"]} if form.get("key") in keys else {}),
        "workspaces": _bound(sorted(workspaces), form.get("workspace", "")),
        "keys": _bound(keys, form.get("key", "")),
    }


def _bound(names: Sequence[str], chosen: str) -> Sequence[str]:
    if len(names) > MAX_LISTED or (chosen and chosen not in names):
        return ()
    return names


def _make_tables(record: Mapping[str, Any]) -> dict[str, Table]:
    """Return the parts of all attempts that are lists, each with the number of its attempt."""
    attempts = list(enumerate(record["attempts"], 1))
    caps = [
        (number, name, one["caps"][name], one["caps"]["won"] == name)
        for number, one in attempts
        for name in CAP_NAMES
        if one["caps"][name] is not None
    ]
    limits = [(number, *row.values()) for number, one in attempts for row in one["limits"]]
    names = next((tuple(row) for _, one in attempts for row in one["limits"]), ())
    fields = [
        (number, *(change[name] for name in ("field", "action", "reason", "source")))
        for number, one in attempts
        for change in one["fields"]
    ]
    following = [(number, *one.values()) for number, attempt in attempts for one in attempt["on_failure"]]
    return {
        "on_failure": Table(("attempt", *Following._fields), following),
        "left_out": Table(LeftOut._fields, [tuple(one.values()) for one in record["left_out"]]),
        "fields": Table(("attempt", "field", "action", "reason", "source"), fields),
        "caps": Table(("attempt", "cap", "tokens", "is_sent"), caps),
        "limits": Table(("attempt", *names), limits),
    }
