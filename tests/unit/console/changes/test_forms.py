"""The forms of workspaces, rules, heuristics and own keys: one edit each, with errors next to their fields."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from rig.settings_files import ACME, HASH_A, edit

from addon.console.changes import own_keys, workspaces
from addon.console.changes.field import FieldErrors
from addon.console.changes.form import Form
from addon.console.changes.forms import FORMS
from addon.console.changes.maker import Maker, RefusedError
from unit.console.changes.test_maker import AT_ACME, lines, make

ADD_RULE, SET_RULE, MOVE_RULE, REMOVE_RULE = (
    FORMS[f"/changes/rules/{verb}"] for verb in ("add", "set", "move", "remove")
)
ADD_HEURISTIC, SET_HEURISTIC = (FORMS[f"/changes/heuristics/{verb}"] for verb in ("add", "set"))
SECRET = "obviously-fake-customer-secret"
RULES = """\

# Money
[[rules]]
keywords = ["bill", "tax"]
model = "gpt-4o-mini"  # cheap

[[rules]]
keywords = ["sea"]
model = "sandbox-chat"
"""


@pytest.fixture
def acme(conf: Path) -> Path:
    return conf.parent / ACME


@pytest.fixture
def master_key(monkeypatch: pytest.MonkeyPatch) -> str:
    key = Fernet.generate_key().decode()
    monkeypatch.setenv("TOLLGATE_SECRET_KEY", key)
    return key


def text_of(file: Path) -> str:
    return file.read_text()


def bytes_of(file: Path) -> bytes:
    return file.read_bytes()


def use_crlf(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))


async def refused(maker: Maker, form: Form, names: Mapping[str, str], **typed: str) -> Mapping[str, str]:
    """Return the errors of a form by field; a fault of the whole form has the name ""."""
    current = await maker.read_current(form, names)
    try:
        await maker.show(form, names, {**current, **typed})
    except FieldErrors as errors:
        return errors.errors
    except RefusedError as error:
        return {"": str(error)}
    raise AssertionError("it was not refused")


async def test_a_workspace_is_created_and_changed(maker: Maker, conf: Path) -> None:
    await make(maker, workspaces.CREATE, {}, workspace="gamma", plan="pro", alert_at_percent="none")
    file = conf.parent / "policies/workspaces/gamma.toml"
    assert text_of(file) == (
        'name = "gamma"\nplan = "pro"\noverage_protection = true\nalert_at_percent = []\n'
    )
    gamma = {"workspace": "gamma"}
    current = await maker.read_current(workspaces.SET, gamma)
    assert (current["name"], current["plan"], current["alert_at_percent"]) == ("gamma", "pro", "none")
    assert (current["rpm_override"], current["overage_protection"], current["safety_net"]) == ("", "true", "")
    await make(maker, workspaces.SET, gamma, plan="", rpm_override="7", monthly_spend_cap_usd="2.5")
    assert text_of(file) == (
        'name = "gamma"\noverage_protection = true\nalert_at_percent = []\n'
        'rpm_override = 7\nmonthly_spend_cap_usd = "2.5"\n'
    )
    assert [(line["action"], line["workspace"]) for line in lines(conf)] == [
        ("workspaces create", "gamma"),
        ("workspaces set", "gamma"),
    ]


@pytest.mark.parametrize(
    ("form", "names", "typed", "errors"),
    [
        (workspaces.CREATE, {}, {"workspace": "acme"}, {"workspace": "already exists"}),
        (workspaces.CREATE, {}, {"workspace": "../x"}, {"workspace": "can't name a workspace"}),
        (
            workspaces.CREATE,
            {},
            {"workspace": "x", "default_model": "gpt-4o-mni"},
            {"default_model": 'unknown model "gpt-4o-mni"; did you mean'},
        ),
        (workspaces.SET, AT_ACME, {"name": ""}, {"name": "is needed"}),
        (
            workspaces.SET,
            AT_ACME,
            {"alert_at_percent": "90,80", "rpm_override": "0"},
            {"rpm_override": "must be a whole number from 1 on"},
        ),
        (workspaces.SET, AT_ACME, {"alert_at_percent": "90,80"}, {"alert_at_percent": "ascending"}),
        (workspaces.SET, AT_ACME, {"fallback_model": "x"}, {"fallback_model": "unknown model"}),
        (workspaces.SET, AT_ACME, {}, {"": "nothing would change"}),
        (workspaces.SET, AT_ACME, {"plan": "standard", "digest": "0"}, {"": "has changed since"}),
        (
            ADD_RULE,
            AT_ACME,
            {"keywords": "a", "model": "gpt"},
            {"model": 'rules[2] (a).model: unknown model "gpt"'},
        ),
        (
            ADD_RULE,
            AT_ACME,
            {"keywords": "a", "model": "gpt-4o-mini", "place": "9"},
            {"place": "from 1 to 3"},
        ),
        (
            ADD_RULE,
            AT_ACME,
            {"keywords": "tg_0123456789", "model": "x"},
            {"keywords": "looks like a credential"},
        ),
        (ADD_RULE, AT_ACME, {"keywords": "\n \n", "model": ""}, {"model": "is needed"}),
        (
            ADD_HEURISTIC,
            AT_ACME,
            {"when": "prompt_tokens_above", "model": "gpt-4o-mini"},
            {"threshold_tokens": "is required"},
        ),
        (
            ADD_HEURISTIC,
            AT_ACME,
            {"when": "often", "model": "gpt-4o-mini"},
            {"when": "must be one of images"},
        ),
        (MOVE_RULE, {**AT_ACME, "rule": "1"}, {"place": "1"}, {"": "nothing would change"}),
        (own_keys.ADD, AT_ACME, {"provider": "OPENAI"}, {"secret": "is needed"}),
        (
            own_keys.ADD,
            AT_ACME,
            {"provider": "SANDBOX", "secret": SECRET},
            {"provider": "must be one of GROQ, OPENAI"},
        ),
        (
            own_keys.ADD,
            AT_ACME,
            {"provider": "OPENAI", "secret": "env:X"},
            {"secret": "is the place of a secret"},
        ),
        (
            own_keys.ADD,
            AT_ACME,
            {"provider": "OPENAI", "secret": "a b\n\nc"},
            {"secret": "byok.OPENAI.secret: "},
        ),
        (
            own_keys.ADD,
            AT_ACME,
            {"provider": "OPENAI", "secret": "sealed:x"},
            {"secret": "is not a whole token"},
        ),
    ],
)
async def test_an_error_is_next_to_its_field(
    maker: Maker,
    acme: Path,
    master_key: str,
    form: Form,
    names: Mapping[str, str],
    typed: dict[str, str],
    errors: Mapping[str, str],
) -> None:
    edit(acme, "", RULES)
    before = bytes_of(acme)
    found = await refused(maker, form, names, **typed)
    assert found.keys() == errors.keys()
    assert all(reason in found[name] for name, reason in errors.items()), found
    assert SECRET not in str(found)
    assert bytes_of(acme) == before


async def test_rules_are_added_changed_moved_and_removed(maker: Maker, acme: Path, conf: Path) -> None:
    before = text_of(acme)
    edit(acme, "", RULES)
    rule = {**AT_ACME, "rule": "2"}
    assert (await maker.read_current(SET_RULE, {**AT_ACME, "rule": "1"}))["keywords"] == "bill\ntax"
    await make(
        maker, SET_RULE, {**AT_ACME, "rule": "1"}, keywords="bill\n tax, and more \n", model="sandbox-chat"
    )
    assert 'keywords = ["bill", "tax, and more"]\nmodel = "sandbox-chat"  # cheap\n' in text_of(acme)
    await make(maker, MOVE_RULE, rule, place="1")
    assert text_of(acme).index('"sea"') < text_of(acme).index("# Money")
    await make(maker, REMOVE_RULE, rule)
    assert "# Money" not in text_of(acme)
    await make(maker, ADD_RULE, AT_ACME, keywords="one\ntwo", model="gpt-4o-mini", place="1")
    assert text_of(acme) == (
        f'{before}\n[[rules]]\nkeywords = ["one", "two"]\nmodel = "gpt-4o-mini"\n\n'
        '[[rules]]\nkeywords = ["sea"]\nmodel = "sandbox-chat"\n'
    )
    assert [line["action"] for line in lines(conf)] == [
        "rules set",
        "rules move",
        "rules remove",
        "rules add",
    ]


async def test_a_heuristic_loses_its_threshold(maker: Maker, acme: Path) -> None:
    before = text_of(acme)
    await make(
        maker,
        ADD_HEURISTIC,
        AT_ACME,
        when="prompt_tokens_above",
        threshold_tokens="500",
        model="gpt-4o-mini",
    )
    await make(maker, SET_HEURISTIC, {**AT_ACME, "heuristic": "1"}, when="tools", threshold_tokens="")
    assert text_of(acme) == f'{before}\n[[heuristics]]\nwhen = "tools"\nmodel = "gpt-4o-mini"\n'


@pytest.mark.parametrize(("form", "number"), [(SET_RULE, "3"), (REMOVE_RULE, "0"), (MOVE_RULE, "x")])
async def test_an_entry_that_is_not_there_has_no_form(
    maker: Maker, acme: Path, form: Form, number: str
) -> None:
    edit(acme, "", RULES)
    with pytest.raises(RefusedError, match=r"has no rule|is named by its number"):
        await maker.read_current(form, {**AT_ACME, "rule": number})


async def test_an_own_key_is_sealed_and_never_shown(
    maker: Maker, acme: Path, conf: Path, master_key: str
) -> None:
    before = text_of(acme)
    typed = {**await maker.read_current(own_keys.ADD, AT_ACME), "provider": "OPENAI", "secret": SECRET}
    preview = await maker.show(own_keys.ADD, AT_ACME, typed)
    waiting = maker.waiting.get(preview.token)
    assert waiting is not None
    assert SECRET not in f"{preview}{waiting.asked.typed}{waiting.asked.values}"
    await make(maker, own_keys.ADD, AT_ACME, provider="OPENAI", secret=SECRET)
    [token] = re.findall(r'"sealed:([^"]+)"', text_of(acme))
    assert Fernet(master_key).decrypt(token).decode() == SECRET
    openai = {**AT_ACME, "provider": "OPENAI"}
    assert "secret" not in await maker.read_current(own_keys.SET, openai)
    await make(maker, own_keys.SET, openai, routing="true")
    assert text_of(acme) == f'{before}\n[byok.OPENAI]\nsecret = "sealed:{token}"\nrouting = true\n'
    await make(maker, own_keys.SET, openai, secret="another-fake-secret")
    assert token not in text_of(acme)
    await make(maker, own_keys.REMOVE, openai)
    assert text_of(acme) == before
    shown = str(lines(conf))
    assert not [one for one in (SECRET, token, "another-fake-secret", "gAAAAA") if one in shown]


async def test_without_a_master_key_no_secret_is_taken(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOLLGATE_SECRET_KEY", raising=False)
    monkeypatch.delenv("TOLLGATE_SECRET_KEY_FILE", raising=False)
    assert "No secret can be sealed here: no master key is set" in str(
        await maker.find_obstacle(own_keys.ADD)
    )
    errors = await refused(maker, own_keys.ADD, AT_ACME, provider="OPENAI", secret=SECRET)
    assert "no master key is set" in errors["secret"]


async def test_the_text_of_a_file_is_changed(maker: Maker, acme: Path, conf: Path) -> None:
    use_crlf(acme)
    before = bytes_of(acme)
    shown = await maker.read_current(workspaces.TEXT, AT_ACME)
    assert HASH_A not in shown["text"]
    assert 'hash = "sha256:(unchanged 1)"   # made in May' in shown["text"]
    await make(maker, workspaces.TEXT, AT_ACME, text=shown["text"].replace("Acme", "Acme & Co"))
    assert bytes_of(acme) == before.replace(b"Acme", b"Acme & Co")
    [line] = lines(conf)
    assert line["action"] == "workspaces edit"
    assert HASH_A not in str(line)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            "plan = ",
            "plan ",
            "is not TOML: Expected '=' after a key in a key/value pair (at line 2, column 6)",
        ),
        ('id = "ci"', 'id = "c i"\nspend = 1', "line 8: keys[0] (c i).spend: unknown key"),
        ('"gpt-4o-mini"', '"gpt-5"', "line 3: default_model: unknown model"),
        ("(unchanged 1)", "b" * 64, "line 8 has a hash or a secret"),
        ("(unchanged 1)", "(unchanged 7)", "line 8 has (unchanged 7), and there is no such value"),
    ],
)
async def test_a_wrong_text_has_its_errors_with_lines(
    maker: Maker, acme: Path, old: str, new: str, error: str
) -> None:
    before = bytes_of(acme)
    text = (await maker.read_current(workspaces.TEXT, AT_ACME))["text"]
    errors = await refused(maker, workspaces.TEXT, AT_ACME, text=text.replace(old, new, 1))
    assert error in errors["text"]
    assert bytes_of(acme) == before


async def test_a_file_that_does_not_load_is_mended_as_text(maker: Maker, acme: Path) -> None:
    edit(acme, 'plan = "pro"', "plan = pro")
    with pytest.raises(RefusedError, match="does not load; mend it as text first"):
        await maker.read_current(workspaces.SET, AT_ACME)
    text = (await maker.read_current(workspaces.TEXT, AT_ACME))["text"]
    await make(maker, workspaces.TEXT, AT_ACME, text=text.replace("plan = pro", 'plan = "pro"'))
    assert 'plan = "pro"' in text_of(acme)
    assert HASH_A in text_of(acme)


async def test_a_text_is_refused_when_the_file_has_changed(maker: Maker, acme: Path) -> None:
    shown: dict[str, Any] = {**await maker.read_current(workspaces.TEXT, AT_ACME)}
    edit(acme, "", "# by hand\n")
    with pytest.raises(RefusedError, match="has changed since this form was opened"):
        await maker.show(workspaces.TEXT, AT_ACME, {**shown, "text": "name = 'x'\n"})
