"""docs/operating.md has a table of all log events, and a table of all fields of a call's line."""

import ast
import inspect
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import addon
from addon.telemetry.log_format import JsonFormatter
from addon.telemetry.logs import log_call
from policies.exchange import Exchange

ADDON = Path(inspect.getfile(addon)).parent
PAGE = (ADDON.parent / "docs" / "operating.md").read_text(encoding="utf-8")
LEVELS = {
    "info": "info",
    "warning": "warning",
    "error": "error",
    "exception": "error",
    "critical": "critical",
}
WITHOUT_LOGGER = {"call", "refusal", "log lines dropped"}
"""The events of lines that no logger gets. Tests of ``telemetry/logs.py`` hold their levels and fields."""


def rows(title: str) -> dict[str, list[str]]:
    """Return the table below ``### title``: the first cell, without its backticks, and the others."""
    section = re.split(r"\n##", PAGE.split(f"\n### {title}\n")[1])[0]
    cells = [line[1:].rstrip("|").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {first.strip(" `"): [cell.strip() for cell in others] for first, *others in cells}


def constant(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def as_dict(node: ast.Dict) -> dict[str, ast.expr]:
    """Return the keys of a dict literal that are strings, with their values."""
    return {key: value for name, value in zip(node.keys, node.values, strict=True) if (key := constant(name))}


def named_events(tree: ast.Module) -> Iterator[str]:
    """Yield each text that a module gives to a key, a keyword or a parameter ``event``."""
    places = {
        one.name: [argument.arg for argument in one.args.args].index("event")
        for one in ast.walk(tree)
        if isinstance(one, ast.FunctionDef) and "event" in [argument.arg for argument in one.args.args]
    }
    for node in ast.walk(tree):
        found: ast.expr | None = None
        if isinstance(node, ast.Dict):
            found = as_dict(node).get("event")
        elif isinstance(node, ast.keyword) and node.arg == "event":
            found = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in places:
            place = places[node.func.id]
            found = node.args[place] if place < len(node.args) else None
        if event := constant(found):
            yield event


def logged_events(tree: ast.Module) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield event, level and other fields of each call of a logger that names an event."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for function in functions:
        for call in ast.walk(function):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                continue
            given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
            if call.func.attr in LEVELS and ("extra" in given or "event" in given):
                values = extra_of(tree, function, given["extra"]) if "extra" in given else given
                if event := constant(values.get("event")):
                    always = {"exception"} if call.func.attr == "exception" else set()
                    yield event, LEVELS[call.func.attr], frozenset(values.keys() - {"event"} | always)


def extra_of(tree: ast.Module, function: ast.AST, value: ast.expr) -> dict[str, ast.expr]:
    """Return the dict that a logger is given: a literal, a name for one, or a function that returns one."""
    if isinstance(value, ast.Dict):
        return as_dict(value)
    if isinstance(value, ast.Name):
        for node in [*ast.walk(function), *tree.body]:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == value.id:
                return extra_of(tree, function, node.value)
    if isinstance(value, ast.Call):
        [made] = [
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and node.name == ast.unparse(value.func)
        ]
        [returned] = [node.value for node in ast.walk(made) if isinstance(node, ast.Return)]
        given = dict(zip([argument.arg for argument in made.args.args], value.args, strict=True))
        return extra_of(tree, made, returned) | {"event": given["event"]}
    return {}


TREES = [ast.parse(file.read_text(encoding="utf-8")) for file in ADDON.rglob("*.py")]


def test_every_event_of_the_code_is_in_the_table_and_no_other() -> None:
    named = {event for tree in TREES for event in named_events(tree)}
    assert sorted(rows("Events")) == sorted(named)


def test_every_event_has_the_documented_level_and_fields() -> None:
    levels: dict[str, set[str]] = {}
    fields: dict[str, set[str]] = {}
    for tree in TREES:
        for event, level, found in logged_events(tree):
            levels.setdefault(event, set()).add(level)
            fields.setdefault(event, set()).update(found)
    documented = {event: cells for event, cells in rows("Events").items() if event not in WITHOUT_LOGGER}
    assert {event: {level} for event, (level, *_) in documented.items()} == levels
    assert {event: set(re.findall(r"`(\w+)`", cells[-1])) for event, cells in documented.items()} == fields


def test_every_field_of_a_calls_line_is_documented_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    log_call(Exchange(id="req_1", created_at=datetime.now(UTC), started_s=0.0), 1.0, event="call")
    line = json.loads(JsonFormatter().format(caplog.records[0]))
    shared = rows("Fields of every line").keys() - {"id"}
    assert list(rows("Fields of the call line")) == [name for name in line if name not in shared]
