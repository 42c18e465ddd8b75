"""Rules, heuristics and own keys are changed one by one, with what a person needs to know when that fails."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from addon.edits.own_keys import (
    find_no_master_key,
    plan_own_key,
    plan_own_key_removal,
    seal_secret,
)
from addon.edits.routing import (
    ALIASES,
    HEURISTICS,
    RULES,
    plan_entry_changes,
    plan_entry_move,
    plan_entry_removal,
    plan_new_entry,
    read_entry,
)
from addon.edits.workspace_files import EditError, Plan
from addon.settings.sealed_secrets import MasterKeys

HEAD = 'name = "Acme"\n'
FIRST = '[[rules]]\nkeywords = ["bill"]  # money\nmodel = "gpt-4o-mini"\n'
SECOND = '# Holidays\n[[rules]]\nkeywords = ["beach", "sea"]\nmodel = "gpt-4o"\n'
OWN = '[byok.OPENAI]\nsecret = "env:X"\n'
TEXT = f"{HEAD}\n{FIRST}\n{SECOND}\n{OWN}"
NEW: dict[str, Any] = {"model": "gpt-4o", "keywords": ["x"]}


@pytest.fixture
def workspaces(tmp_path: Path) -> Path:
    (tmp_path / "acme.toml").write_text(TEXT)
    return tmp_path


@pytest.mark.parametrize(
    ("make", "after", "summary"),
    [
        (
            lambda folder: plan_new_entry(folder, "acme", RULES, NEW),
            f'{HEAD}\n{FIRST}\n{SECOND}\n[[rules]]\nkeywords = ["x"]\nmodel = "gpt-4o"\n\n{OWN}',
            "Add the rule 3 (x) to the workspace acme",
        ),
        (
            lambda folder: plan_new_entry(folder, "acme", RULES, NEW, 1),
            f'{HEAD}\n[[rules]]\nkeywords = ["x"]\nmodel = "gpt-4o"\n\n{FIRST}\n{SECOND}\n{OWN}',
            "Add the rule 1 (x) to the workspace acme",
        ),
        (
            lambda folder: plan_new_entry(
                folder, "acme", HEURISTICS, {"when": "tools", "model": "gpt-4o", "threshold_tokens": None}
            ),
            f'{TEXT}\n[[heuristics]]\nwhen = "tools"\nmodel = "gpt-4o"\n',
            "Add the heuristic 1 (tools) to the workspace acme",
        ),
        (
            lambda folder: plan_new_entry(folder, "acme", ALIASES, {"model": "gpt-4o", "name": "fast"}),
            f'{TEXT}\n[[aliases]]\nname = "fast"\nmodel = "gpt-4o"\n',
            "Add the alias 1 (fast) to the workspace acme",
        ),
        (
            lambda folder: plan_entry_changes(folder, "acme", RULES, 1, {"keywords": ["bill", "tax"]}),
            TEXT.replace('["bill"]', '["bill", "tax"]'),
            "Change the rule 1 (bill) of the workspace acme: keywords set",
        ),
        (
            lambda folder: plan_entry_move(folder, "acme", RULES, 2, 1),
            f"{HEAD}\n{SECOND}\n{FIRST}\n{OWN}",
            "Move the rule 2 (beach) of the workspace acme to place 1",
        ),
        (
            lambda folder: plan_entry_removal(folder, "acme", RULES, 2),
            f"{HEAD}\n{FIRST}\n{OWN}",
            "Remove the rule 2 (beach) of the workspace acme",
        ),
        (
            lambda folder: plan_own_key(folder, "acme", "OPENAI", {"secret": "env:Y", "routing": True}),
            TEXT.replace('"env:X"\n', '"env:Y"\nrouting = true\n'),
            "Change the own key for OPENAI of the workspace acme: secret, routing set",
        ),
        (
            lambda folder: plan_own_key(folder, "acme", "GROQ", {"secret": "env:Y", "routing": None}),
            f'{TEXT}\n[byok.GROQ]\nsecret = "env:Y"\n',
            "Give the workspace acme an own key for GROQ",
        ),
        (
            lambda folder: plan_own_key_removal(folder, "acme", "OPENAI"),
            f"{HEAD}\n{FIRST}\n{SECOND}",
            "Remove the own key for OPENAI of the workspace acme",
        ),
    ],
)
def test_a_plan_changes_only_its_lines(
    workspaces: Path, make: Callable[[Path], Plan], after: str, summary: str
) -> None:
    plan = make(workspaces)
    assert (plan.after, plan.summary) == (after, summary)
    assert (workspaces / "acme.toml").read_text() == TEXT


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: read_entry(folder, "acme", RULES, 3), "workspace acme has no rule 3; it has 2"),
        (lambda folder: read_entry(folder, "acme", HEURISTICS, 1), "has no heuristic 1; it has 0"),
        (lambda folder: plan_new_entry(folder, "acme", RULES, NEW, 4), "must be from 1 to 3"),
        (lambda folder: plan_entry_move(folder, "acme", RULES, 1, 3), "must be from 1 to 2"),
        (lambda folder: plan_own_key(folder, "acme", "GROQ", {"routing": True}), "a secret is needed"),
        (lambda folder: plan_own_key_removal(folder, "acme", "OPENA"), 'did you mean "OPENAI"?'),
        (lambda folder: plan_own_key_removal(folder, "acm", "OPENAI"), 'unknown workspace "acm"'),
    ],
)
def test_a_wrong_place_is_refused(workspaces: Path, make: Callable[[Path], object], reason: str) -> None:
    with pytest.raises(EditError) as caught:
        make(workspaces)
    assert reason in str(caught.value)


def test_a_secret_is_sealed_on_arrival(tmp_path: Path) -> None:
    key = Fernet.generate_key().decode()
    env = {"TOLLGATE_SECRET_KEY": key}
    file = tmp_path / "master.keys"
    sealed = seal_secret(" a-secret\n", file, env)
    assert "a-secret" not in sealed
    assert MasterKeys(key).unseal(sealed.removeprefix("sealed:")) == "a-secret"
    assert find_no_master_key(file, env) is None
    assert "no master key is set" in str(find_no_master_key(file, {}))
    for text, reason in (
        (" ", "is empty"),
        ("env:X", "is the place of a secret"),
        ("file:x", "is the place"),
        (sealed, "is sealed already"),
    ):
        with pytest.raises(ValueError, match=reason):
            seal_secret(text, file, env)
    with pytest.raises(ValueError, match="no master key"):
        seal_secret("a-secret", file, {})
