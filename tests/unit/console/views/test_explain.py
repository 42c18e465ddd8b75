"""``/explain``: the form, its errors, and the explanation, which is that of the command."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rig import explained
from rig.configuration import Configuration, new_key
from rig.console_reading import open_reading

from addon.console.view import View
from addon.console.views.explain_examples import EXAMPLES
from addon.console.views.explain_shown import MAX_COMPARED_LINES
from addon.console.views.loaders import load_view
from addon.edits.diff import DiffLine

BASE = "https://provider.example/v1"
HELLO = {"messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explained")
    keys = {name: new_key() for name in explained.NAMES}
    explained.write_policy(folder)
    Configuration(**explained.settings(BASE, keys)).write(folder)
    return folder


def ask(folder: Path, form: dict[str, str] | None, query: str = "") -> View:
    with open_reading(folder / "proxy.conf", f"/explain?{query}", env=explained.ENVIRONMENT) as (
        page,
        reading,
    ):
        return load_view(page, replace(reading, form=form))


def explain(folder: Path, workspace: str, body: Any, **form: str) -> View:
    return ask(folder, {"workspace": workspace, "body": json.dumps(body), **form})


def test_the_form_is_filled_as_the_url_asks(folder: Path) -> None:
    view = ask(folder, None, "workspace=hop&key=hop&example=capped")
    assert view.shown["form"]["workspace"] == "hop"
    assert json.loads(view.shown["form"]["body"])["stream"] is True
    assert view.shown["keys"] == ["hop"]
    assert ask(folder, None).shown["form"]["workspace"] == "acme"


def test_examples_keep_only_names_that_exist(folder: Path) -> None:
    known = {"workspace": "hop", "key": "hop"}
    assert ask(folder, None, "workspace=hop&key=hop").shown["known"] == known
    pasted = new_key()
    assert ask(folder, known | {"key": pasted, "body": "{}"}).shown["known"] == {"workspace": "hop"}
    assert ask(folder, {"workspace": pasted, "key": "hop", "body": "{}"}).shown["known"] == {}


@pytest.mark.parametrize(
    ("form", "errors"),
    [
        ({}, {"workspace": "Choose a workspace.", "body": "Paste a request."}),
        ({"workspace": "plain", "body": " "}, {"body": "Paste a request."}),
        (
            {"workspace": "plane", "body": "{}"},
            {"workspace": 'unknown workspace "plane"; did you mean "plain"?'},
        ),
        (
            {"workspace": "plain", "key": "ci", "body": "{}"},
            {"key": 'unknown key "ci" of workspace plain; known are plain, retired'},
        ),
    ],
)
def test_an_error_is_next_to_its_field(folder: Path, form: dict[str, str], errors: dict[str, str]) -> None:
    view = ask(folder, form)
    assert (view.errors, view.shown["explained"]) == (errors, None)


def test_the_explanation_has_both_attempts_with_their_fields_and_caps(folder: Path) -> None:
    view = explain(folder, "hop", HELLO | {"model": "gpt", "max_tokens": 50, "seed": 3, "unknown": 1})
    assert [one["model_slug"] for one in view.values["attempts"]] == ["gpt", "claude"]
    fields = {(row["attempt"], row["field"]): row["action"] for row in view.tables["fields"].records()}
    assert (fields[1, "unknown"], fields[2, "seed"]) == ("dropped", "dropped")
    caps = view.tables["caps"].records()
    assert {"attempt": 1, "cap": "client", "tokens": 50, "is_sent": True} in caps
    first = view.shown["explained"]["attempts"][0]
    assert first["url"] == f"{BASE}/chat/completions"
    assert DiffLine("removed", '  "unknown": 1') in first["difference"]
    assert DiffLine("added", '  "model": "gpt-2026",') in first["difference"]


@pytest.mark.parametrize(
    ("model", "mode"), [("gpt", "payg (the platform's key)"), ("local", "payg (no key)")]
)
def test_an_attempt_says_whose_key_is_sent(folder: Path, model: str, mode: str) -> None:
    view = explain(folder, "plain", HELLO | {"model": model})
    assert view.shown["explained"]["attempts"][0]["mode"] == mode


def test_each_rule_says_whether_it_matches(folder: Path) -> None:
    body = {"messages": [{"role": "user", "content": "Improve my SQL"}], "tools": explained.TOOLS}
    view = explain(folder, "plain", body)
    assert view.values["decided_by"] == "rule 1 (sql)"
    assert view.tables["rules"].records() == [
        {"rule": "rule 1 (sql)", "model": "thinker", "matched": "sql"},
        {"rule": "rule 2 (數據庫)", "model": "claude", "matched": None},
        {"rule": "heuristic tools", "model": "mistral", "matched": "tools"},
        {"rule": "heuristic json", "model": "gem", "matched": None},
    ]


@pytest.mark.parametrize(
    ("workspace", "body", "expected"),
    [
        ("plain", {"messages": "hello"}, "Refused by the body: 400 validation_failed, param messages: "),
        ("plain", HELLO | {"model": "old"}, "Refused by the routing: 400 invalid_state, param model: "),
        ("poor", HELLO, "Refused by the limits: 402 payment_required: Insufficient API credits"),
        ("plain", HELLO | {"user": "x" * 30_000}, "Refused by the size: 413 "),
        ("plain", {"messages": [{"role": "user", "content": "forbidden"}]}, "Refused by the policies: 403 "),
    ],
)
def test_a_refusal_is_what_the_client_sees(folder: Path, workspace: str, body: Any, expected: str) -> None:
    view = explain(folder, workspace, body)
    assert view.shown["explained"]["refusal"].startswith(expected)
    assert not view.errors


def test_a_body_that_is_not_json_is_refused_as_in_a_call(folder: Path) -> None:
    view = ask(folder, {"workspace": "plain", "body": "{"})
    assert view.values["refusal"]["code"] == "validation_failed"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.name)
def test_each_example_is_explained(folder: Path, example: Any) -> None:
    view = ask(folder, {"workspace": "plain", "body": example.body})
    assert bool(view.values["refusal"]) == (example.name == "invalid")


def test_long_bodies_are_not_compared(folder: Path) -> None:
    body = {"messages": [{"role": "user", "content": "x"}] * MAX_COMPARED_LINES}
    view = explain(folder, "plain", body, key="plain")
    assert [one["difference"] for one in view.shown["explained"]["attempts"]] in ([], [()])


def test_no_secret_is_in_an_explanation(folder: Path) -> None:
    view = explain(folder, "net", HELLO | {"model": "own"})
    seen = str((view.values, {name: table.rows for name, table in view.tables.items()}, view.shown))
    assert "foundry/own" in seen
    assert not [one for one in explained.ENVIRONMENT.values() if one[:16] in seen]
