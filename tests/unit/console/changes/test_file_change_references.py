"""Who has the console's password can't reach a secret of the machine by its name."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from rig.settings_files import BETA, edit

from addon.console.changes import keys, own_keys, routing, workspaces
from addon.console.changes.field import FieldErrors
from addon.console.changes.maker import ChangeMaker, RefusedError
from unit.console.changes.test_forms import bytes_of, refused, text_of
from unit.console.changes.test_maker import AT_ACME, REQUESTER, make

REFUSED = "not one of [admin] references"
SEALED = f"sealed:{Fernet(Fernet.generate_key()).encrypt(b'obviously-fake').decode()}"

# what stands in the file, what is typed in its place
ATTACKS: Mapping[str, tuple[str, str]] = {
    "the master key": ("", '[byok.GROQ]\nsecret = "env:TOLLGATE_SECRET_KEY"\n'),
    "the console's password": ("", '[byok.GROQ]\nsecret = "env:CONSOLE"\n'),
    "any variable": ("", '[byok.GROQ]\nsecret = "env:HOME"\n'),
    "a file of the machine": ("", '[byok.GROQ]\nsecret = "file:/etc/hostname"\n'),
    "a file that is missing": ("", '[byok.GROQ]\nsecret = "file:/no/such/file"\n'),
    "a way up": ("", '[byok.GROQ]\nsecret = "file:secrets/../../../proxy.conf"\n'),
    "an inline table": ("", 'byok = { GROQ = { secret = "env:HOME" } }\n'),
    "dotted keys": ("", 'byok.GROQ.secret = "env:HOME"\n'),
    "quoted keys": ("", "['byok'.\"GROQ\"]\n\"secret\" = 'env:HOME'\n"),
    "escapes": ("", '[byok.GROQ]\n"s\\u0065cret" = "\\u0065nv:HOME"\n'),
    "an escaped value": ("", '[byok.GROQ]\n"\\u0073ecret" = "env\\u003AHOME"\n'),
    "another key": ("", 'default_model = "env:HOME"\n'),
    "another table": ("", '[[rules]]\nkeywords = ["env:HOME"]\nmodel = "gpt-4o-mini"\n'),
    "a comment that becomes a value": (
        '# [byok.GROQ]\n# secret = "env:HOME"\n',
        '[byok.GROQ]\nsecret = "env:HOME"\n',
    ),
    "another provider": ('[byok.OPENAI]\nsecret = "env:ACME"\n', '[byok.GROQ]\nsecret = "env:ACME"\n'),
    "a second provider": (
        '[byok.OPENAI]\nsecret = "env:ACME"\n',
        '[byok.OPENAI]\nsecret = "env:ACME"\n[byok.GROQ]\nsecret = "env:ACME"\n',
    ),
    "two that change places": (
        '[byok.OPENAI]\nsecret = "env:ACME"\n[byok.GROQ]\nsecret = "env:OTHER"\n',
        '[byok.OPENAI]\nsecret = "env:OTHER"\n[byok.GROQ]\nsecret = "env:ACME"\n',
    ),
    "a label that becomes a secret": (
        '[[rules]]\nkeywords = ["env:HOME"]\nmodel = "gpt-4o-mini"\n',
        '[[rules]]\nkeywords = ["env:HOME"]\nmodel = "gpt-4o-mini"\n[byok.GROQ]\nsecret = "env:HOME"\n',
    ),
}


def put_first(acme: Path, text: str) -> None:
    """Write ``text`` at the top of a file, or below all other lines where it has tables."""
    edit(acme, "", f"\n{text}") if text.startswith(("[", "#")) else edit(acme, "plan =", f"{text}plan =")


@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_reference_is_refused_wherever_it_is(maker: ChangeMaker, acme: Path, attack: str) -> None:
    before, after = ATTACKS[attack]
    put_first(acme, before)
    content = bytes_of(acme)
    text = (await maker.read_current(workspaces.TEXT, AT_ACME))["text"]
    if after.startswith("["):
        typed = text.removesuffix(f"\n{before}" if before else "") + f"\n{after}"
    else:
        typed = text.replace('default_model = "gpt-4o-mini"\n', "", 1).replace("plan =", f"{after}plan =", 1)
    errors = await refused(maker, workspaces.TEXT, AT_ACME, text=typed)
    assert REFUSED in errors["text"]
    assert "no such file" not in errors["text"].lower()
    assert bytes_of(acme) == content


async def test_no_answer_says_whether_a_file_exists(maker: ChangeMaker) -> None:
    text = (await maker.read_current(workspaces.TEXT, AT_ACME))["text"]
    found = [
        (await refused(maker, workspaces.TEXT, AT_ACME, text=f'{text}[byok.GROQ]\nsecret = "file:{path}"\n'))[
            "text"
        ]
        for path in ("/etc/hostname", "/etc", "/no/such/file")
    ]
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    ("form", "names", "typed"),
    [
        (keys.CREATE, AT_ACME, {"label": "env:HOME"}),
        (keys.SET, {**AT_ACME, "key": "ci"}, {"label": "file:/etc/passwd"}),
        (workspaces.SET, AT_ACME, {"name": "env:HOME"}),
        (workspaces.CREATE, {}, {"workspace": "new", "name": "env:HOME"}),
        (routing.ROUTING_FORMS[0], AT_ACME, {"keywords": "env:HOME", "model": "gpt-4o-mini"}),
    ],
)
async def test_no_form_takes_one(maker: ChangeMaker, form: object, names: object, typed: object) -> None:
    with pytest.raises((FieldErrors, RefusedError), match=r"\[admin\] references"):
        await make(maker, form, names, **typed)  # type: ignore[arg-type]


async def test_a_secret_is_typed_and_never_named(maker: ChangeMaker, master_key: str) -> None:
    for text in ("env:HOME", "file:/etc/passwd", SEALED):
        errors = await refused(maker, own_keys.ADD, AT_ACME, provider="GROQ", secret=text)
        assert "is the place of a secret" in errors["secret"] or "is sealed already" in errors["secret"]


async def test_a_sealed_secret_stays_in_its_table(maker: ChangeMaker, acme: Path, master_key: str) -> None:
    await make(maker, own_keys.ADD, AT_ACME, provider="OPENAI", secret="obviously-fake-own")
    text = (await maker.read_current(workspaces.TEXT, AT_ACME))["text"]
    for typed in (
        text.replace("[byok.OPENAI]", "[byok.GROQ]"),
        f"{text}\n[byok.GROQ]\nsecret = '{SEALED}'\n",
    ):
        before = bytes_of(acme)
        errors = await refused(maker, workspaces.TEXT, AT_ACME, text=typed)
        assert "a sealed secret can't move" in errors["text"] or "has a hash or a secret" in errors["text"]
        assert bytes_of(acme) == before
    await make(maker, workspaces.TEXT, AT_ACME, text=text.replace("Acme", "Acme & Co"))
    assert "[byok.OPENAI]" in text_of(acme)


async def test_what_stands_in_the_file_may_stay(
    maker: ChangeMaker, acme: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME", "obviously-fake-own")
    put_first(acme, '[byok.OPENAI]\nsecret = "env:ACME"\n')
    text = (await maker.read_current(workspaces.TEXT, AT_ACME))["text"]
    inline = text.replace('[byok.OPENAI]\nsecret = "env:ACME"\n', "").replace(
        "plan =", "byok.OPENAI = { routing = true, secret = 'env:ACME' }\nplan =", 1
    )
    await make(maker, workspaces.TEXT, AT_ACME, text=inline)
    assert "routing = true" in text_of(acme)


async def test_what_a_broken_file_had_may_stay_when_it_is_mended(
    maker: ChangeMaker, acme: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME", "obviously-fake-own")
    put_first(acme, '[byok.OPENAI]\nsecret = "env:ACME"\n')
    maker._files.load()
    settings = maker._files.load()
    for now_s in (10.0, 11.0):
        maker._files.look(now_s, settings.conf)
    edit(acme, 'plan = "pro"', "plan = pro")
    text = (await maker.read_current(workspaces.TEXT, AT_ACME))["text"]
    moved = text.replace("plan = pro", 'plan = "pro"').replace("byok.OPENAI", "byok.GROQ")
    assert REFUSED in (await refused(maker, workspaces.TEXT, AT_ACME, text=moved))["text"]
    await make(maker, workspaces.TEXT, AT_ACME, text=text.replace("plan = pro", 'plan = "pro"'))
    assert 'plan = "pro"' in text_of(acme)


@pytest.fixture
def listing(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """References of customers are allowed, and one of the platform by mistake."""
    edit(
        conf,
        "console_password",
        'references = ["env:BYOK_*", "env:OPENAI_KEY", "file:secrets/*"]\nconsole_password',
    )
    monkeypatch.setenv("BYOK_ACME", "obviously-fake-own")


@pytest.mark.usefixtures("listing")
async def test_a_listed_reference_is_taken(maker: ChangeMaker, acme: Path) -> None:
    (acme.parent / "secrets").mkdir()
    (acme.parent / "secrets" / "acme").write_text("obviously-fake-own")
    text = (await maker.read_current(workspaces.TEXT, AT_ACME))["text"]
    for provider, reference in (("GROQ", "env:BYOK_ACME"), ("OPENAI", "file:secrets/acme")):
        text += f'\n[byok.{provider}]\nsecret = "{reference}"\n'
        await make(maker, workspaces.TEXT, AT_ACME, text=text)
        assert reference in text_of(acme)


@pytest.mark.usefixtures("listing")
async def test_a_listed_secret_of_the_gateway_is_still_refused(maker: ChangeMaker) -> None:
    text = (await maker.read_current(workspaces.TEXT, AT_ACME))["text"]
    typed = f'{text}\n[byok.GROQ]\nsecret = "env:OPENAI_KEY"\n'
    errors = await refused(maker, workspaces.TEXT, AT_ACME, text=typed)
    assert "is a secret of the gateway" in errors["text"]


@pytest.mark.usefixtures("listing")
async def test_a_link_that_changes_before_the_confirmation_is_not_followed(
    maker: ChangeMaker, acme: Path
) -> None:
    link = acme.parent / "secrets" / "acme"
    link.parent.mkdir()
    link.write_text("obviously-fake-own")
    text = (await maker.read_current(workspaces.TEXT, AT_ACME))["text"]
    current = await maker.read_current(workspaces.TEXT, AT_ACME)
    typed = {**current, "text": f'{text}\n[byok.GROQ]\nsecret = "file:secrets/acme"\n'}
    waiting = maker.waiting.get(await maker.show(workspaces.TEXT, AT_ACME, typed), "")
    assert waiting is not None
    link.unlink()
    link.symlink_to(acme.parent.parent.parent / BETA)
    before = bytes_of(acme)
    with pytest.raises(RefusedError, match=r"\[admin\] references"):
        await maker.confirm(waiting, REQUESTER)
    assert bytes_of(acme) == before
