"""The forms of workspaces, rules, heuristics and own keys: one edit each, with errors next to their fields."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from rig.large import sampled
from rig.settings_files import edit

from addon.console.changes import keys, own_keys, workspaces
from addon.console.changes.field import FieldErrors
from addon.console.changes.form import Form
from addon.console.changes.forms import FORMS
from addon.console.changes.maker import ChangeMaker, RefusedError
from unit.console.changes.test_maker import AT_ACME, CI, lines, make

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


def text_of(file: Path) -> str:
    return file.read_text()


def bytes_of(file: Path) -> bytes:
    return file.read_bytes()


async def refused(
    maker: ChangeMaker, form: Form, names: Mapping[str, str], **typed: str
) -> Mapping[str, str]:
    """Return the errors of a form by field; a fault of the whole form has the name ""."""
    current = await maker.read_current(form, names)
    try:
        await maker.show(form, names, {**current, **typed})
    except FieldErrors as errors:
        return errors.errors
    except RefusedError as error:
        return {"": str(error)}
    raise AssertionError("it was not refused")


@pytest.mark.parametrize(
    "form", [form for form in FORMS.values() if form.names], ids=lambda form: form.action
)
async def test_a_form_of_an_unknown_name_is_refused(maker: ChangeMaker, form: Form) -> None:
    for known in range(len(form.names)):
        names = dict.fromkeys(form.names, "nope") | dict(list(AT_ACME.items())[:known])
        with pytest.raises(RefusedError):
            await maker.read_current(form, names)


async def test_a_workspace_is_created_and_changed(maker: ChangeMaker, conf: Path) -> None:
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


@sampled(every=4)
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
        (
            ADD_RULE,
            AT_ACME,
            {"keywords": "\n \n", "model": ""},
            {"keywords": "is needed", "model": "is needed"},
        ),
        (SET_RULE, {**AT_ACME, "rule": "1"}, {"keywords": "\n \n"}, {"keywords": "is needed"}),
        (SET_RULE, {**AT_ACME, "rule": "1"}, {"keywords": ""}, {"keywords": "is needed"}),
        # A list without a name is no list, and no list allows all models.
        (keys.CREATE, AT_ACME, {"models": ","}, {"models": "has no name"}),
        (keys.CREATE, AT_ACME, {"models": " , "}, {"models": "has no name"}),
        (keys.CREATE, AT_ACME, {"models": "  "}, {"models": "has only blanks; leave it empty"}),
        (keys.SET, CI, {"models": ","}, {"models": "has no name"}),
        (keys.SET, CI, {"models": "\u00a0"}, {"models": "has only blanks"}),
        (workspaces.SET, AT_ACME, {"alert_at_percent": ","}, {"alert_at_percent": "must be whole numbers"}),
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
            {"secret": "is sealed already"},
        ),
    ],
)
async def test_an_error_is_next_to_its_field(
    maker: ChangeMaker,
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


async def test_rules_are_added_changed_moved_and_removed(maker: ChangeMaker, acme: Path, conf: Path) -> None:
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


async def test_a_heuristic_loses_its_threshold(maker: ChangeMaker, acme: Path) -> None:
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
    maker: ChangeMaker, acme: Path, form: Form, number: str
) -> None:
    edit(acme, "", RULES)
    with pytest.raises(RefusedError, match=r"has no rule|is named by its number"):
        await maker.read_current(form, {**AT_ACME, "rule": number})
