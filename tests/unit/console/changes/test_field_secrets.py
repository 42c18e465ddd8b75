"""A secret that is typed into a wrong field is refused: it is in no error, no file, and no part of the ledger."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from rig.canaries import Canaries
from rig.configuration import new_key
from rig.large import sampled
from rig.settings_files import HASH_A, edit

from addon.console.changes import workspaces
from addon.console.changes.field import FieldErrors, TypedSecretError, mask_refused
from addon.console.changes.form import Form
from addon.console.changes.forms import FORMS
from addon.console.changes.maker import ChangeMaker
from addon.settings.settings import SettingsFiles
from addon.text.masking import mask_credentials
from unit.console.changes.test_forms import bytes_of
from unit.console.changes.test_maker import AT_ACME, lines, make

MASTER_KEY = Fernet.generate_key().decode()
SECRETS = {
    "the password": "correct horse battery staple",
    "a platform key": "Qx7.no/vendor/has+such/keys.91",
    "an own key": "customers-token-0042-of-some-vendor",
    "the master key": MASTER_KEY,
    "an API key": new_key(),
    "the hash of a key": HASH_A,
}
ENV = {
    "CONSOLE": SECRETS["the password"],
    "OPENAI_KEY": SECRETS["a platform key"],
    "GROQ_KEY": SECRETS["a platform key"],
    "OWN": SECRETS["an own key"],
}
RULE = '\n[[rules]]\nkeywords = ["a"]\nmodel = "gpt-4o-mini"\n\n[[heuristics]]\nwhen = "tools"\nmodel = "gpt-4o-mini"\n'
ALIAS = '[[aliases]]\nname = "fast"\nmodel = "gpt-4o-mini"\n'
NAMES = {"workspace": "acme", "key": "ci", "rule": "1", "heuristic": "1", "alias": "1", "provider": "OPENAI"}


@pytest.fixture
def maker(conf: Path, acme: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangeMaker]:
    monkeypatch.setenv("TOLLGATE_SECRET_KEY", MASTER_KEY)
    edit(acme, "", f'{RULE}\n{ALIAS}\n[byok.OPENAI]\nsecret = "env:OWN"\n')
    made = ChangeMaker(lambda: SettingsFiles(conf, ENV).load(), SettingsFiles(conf))
    yield made
    made.close()


def names_of(form: Form) -> Mapping[str, str]:
    return {name: NAMES[name] for name in form.names}


async def is_refused(maker: ChangeMaker, form: Form, field: str, text: str) -> None:
    """Check that a text of a field is refused, and that neither the error nor the page shows a secret."""
    names = names_of(form)
    current = await maker.read_current(form, names)
    typed = {**current, field: text}
    with pytest.raises(FieldErrors) as refused:
        await maker.show(form, names, typed)
    error = refused.value
    assert field in error.errors
    shown = error.masked if isinstance(error, TypedSecretError) else typed
    page = f"{mask_credentials(str(error))} {mask_refused(form.fields, shown)}"
    assert Canaries(SECRETS).found_in(page.encode()) == set()


TEXTS = [
    (form, field.name)
    for form in FORMS.values()
    for field in form.fields
    if field.kind in ("text", "textarea") and field.name != "text"
]


@sampled(every=3)
@pytest.mark.parametrize("secret", SECRETS)
async def test_no_field_takes_a_secret(maker: ChangeMaker, conf: Path, acme: Path, secret: str) -> None:
    before = bytes_of(acme)
    for form, field in TEXTS:
        await is_refused(maker, form, field, SECRETS[secret])
        await is_refused(maker, form, field, f"May {SECRETS[secret]}, paid")
    assert bytes_of(acme) == before
    assert lines(conf) == []


PLACES = [
    "# {}\n",
    "# the key is ({}), do not lose it\n",
    'default_model = "{}"\n',
    'name = "Acme {}"\n',
    "name = 'Acme {}'\n",
    'name = """\nAcme\n{}\n"""\n',
    '"{}" = 1\n',
    '[byok.GROQ]\nsecret = "{}"\n',
    '[byok.GROQ]\nsecret = """\n{}\n"""\n',
    "[byok.GROQ]\nsecret = '''{}'''\n",
    "[byok.GROQ]\n'secret' = '''\n{}",
    'keys = [{{ id = "x", hash = "sha256:{}" }}]\n',
    "{}",
]


@sampled(every=3)
@pytest.mark.parametrize("secret", SECRETS)
async def test_no_place_of_a_text_takes_a_secret(
    maker: ChangeMaker, conf: Path, acme: Path, secret: str
) -> None:
    before = bytes_of(acme)
    text = (await maker.read_current(workspaces.TEXT, AT_ACME))["text"]
    for place in PLACES:
        typed = place.format(SECRETS[secret])
        await is_refused(maker, workspaces.TEXT, "text", f"{text}\n{typed}")
        await is_refused(maker, workspaces.TEXT, "text", f"{typed}\n{text}")
    assert bytes_of(acme) == before
    assert lines(conf) == []


VALID: Mapping[str, Mapping[str, str]] = {
    "keys create": {"id": "new"},
    "keys set": {"label": "new"},
    "keys rotate": {},
    "keys revoke": {},
    "wallet credit": {"amount": "2", "reference": "May"},
    "wallet debit": {"amount": "1", "reference": "June"},
    "workspaces create": {"workspace": "new"},
    "workspaces set": {"rpm_override": "7", "tpm": "5000"},
    "workspaces edit": {"text": "name = 'x'\n"},
    "rules add": {"keywords": "b", "model": "gpt-4o-mini"},
    "rules set": {"keywords": "c"},
    "rules move": {"place": "2"},
    "rules remove": {},
    "heuristics add": {"when": "images", "model": "gpt-4o-mini"},
    "heuristics set": {"when": "images"},
    "heuristics move": {"place": "2"},
    "heuristics remove": {},
    "aliases add": {"name": "claude-haiku-*", "model": "gpt-4o-mini"},
    "aliases set": {"name": "slow"},
    "aliases remove": {},
    "byok add": {"provider": "GROQ", "secret": "gsk_qwertyuiopasdfghjkl7"},
    "byok set": {"secret": "sk-zxcvbnmlkjhgfdsaqwert7"},
    "byok remove": {},
}


@sampled(every=4)
@pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: form.action)
async def test_each_change_is_one_line_without_a_secret(
    maker: ChangeMaker, conf: Path, acme: Path, form: Form
) -> None:
    edit(acme, "", RULE.replace('"a"', '"z"').replace('"tools"', '"json"'))
    await make(maker, form, names_of(form), **VALID[form.action])
    [line] = lines(conf)
    assert (line["action"], line["outcome"]) == (form.action, "made")
    typed = {name: text for name, text in VALID[form.action].items() if name == "secret"}
    ledger = b"".join(
        file.read_bytes() for file in (conf.parent / "var").glob("tollgate.db*") if file.is_file()
    )
    assert Canaries({**SECRETS, **typed}).found_in(ledger) == set()
