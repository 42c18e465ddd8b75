"""The file of a workspace is edited as text: checked, without its hashes, and also when it does not load."""

from pathlib import Path
from typing import Any

import pytest
from rig.large import sampled
from rig.settings_files import HASH_A, edit

from addon.console.changes import workspaces
from addon.console.changes.maker import ChangeMaker, RefusedError
from addon.settings.errors import MAX_ERRORS, MORE_ERRORS
from unit.console.changes.test_forms import bytes_of, refused, text_of
from unit.console.changes.test_maker import AT_ACME, lines, make


def use_crlf(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))


async def test_the_text_of_a_file_is_changed(maker: ChangeMaker, acme: Path, conf: Path) -> None:
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
        ("(unchanged 1)", "e" * 64, "line 8 has a hash or a secret"),
        ("(unchanged 1)", "b" * 64, "line 8 has a secret of this gateway"),
        ("(unchanged 1)", "(unchanged 7)", "line 8 has (unchanged 7), and there is no such value"),
    ],
)
async def test_a_wrong_text_has_its_errors_with_lines(
    maker: ChangeMaker, acme: Path, old: str, new: str, error: str
) -> None:
    before = bytes_of(acme)
    text = (await maker.read_current(workspaces.TEXT, AT_ACME))["text"]
    errors = await refused(maker, workspaces.TEXT, AT_ACME, text=text.replace(old, new, 1))
    assert error in errors["text"]
    assert bytes_of(acme) == before


async def test_a_file_that_does_not_load_is_mended_as_text(maker: ChangeMaker, acme: Path) -> None:
    edit(acme, 'plan = "pro"', "plan = pro")
    with pytest.raises(RefusedError, match="does not load; mend it as text first"):
        await maker.read_current(workspaces.SET, AT_ACME)
    text = (await maker.read_current(workspaces.TEXT, AT_ACME))["text"]
    await make(maker, workspaces.TEXT, AT_ACME, text=text.replace("plan = pro", 'plan = "pro"'))
    assert 'plan = "pro"' in text_of(acme)
    assert HASH_A in text_of(acme)


async def test_a_text_is_refused_when_the_file_has_changed(maker: ChangeMaker, acme: Path) -> None:
    shown: dict[str, Any] = {**await maker.read_current(workspaces.TEXT, AT_ACME)}
    edit(acme, "", "# by hand\n")
    with pytest.raises(RefusedError, match="has changed since this form was opened"):
        await maker.show(workspaces.TEXT, AT_ACME, {**shown, "text": "name = 'x'\n"})


@sampled(every=4)
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a." * 50_000 + "a = 1\n", "is not TOML: a key has more than 16 parts (at line 2)"),
        ("x = " + "[" * 50_000, "is not TOML: nested too deeply (at line 2)"),
        ("x = " + "{ a = " * 20_000, "is not TOML: nested too deeply (at line 2)"),
        ("rpm_override = 0x" + "f" * 20, "is not TOML: an integer has more than 64 bits (at line 2)"),
        ("rpm_override = 0x" + "f" * 50_000, "line 2 has a hash or a secret"),
        ("rpm_override = " + "9_" * 50_000 + "9", "an integer has more than 64 bits (at line 2)"),
        ("rpm_override = 1\n" * 2_000, "is not TOML: Cannot overwrite a value (at line 3, column 17)"),
        ('label = "\0"', "is not TOML: Illegal character '\\x00' (at line 2, column 10)"),
        ("\ufeffplan = 1", "is not TOML: Invalid statement (at line 2, column 1)"),
        ("plan = 'pro'\rsafety_net = true\n", "is not TOML: Expected newline"),
        ("plan = '" + "x" * 200_000 + "'", "line 2: plan: must be 'standard' or 'pro'"),
        ("default_model = '" + "x" * 200_000 + "'", f'unknown model "{"x" * 200}…"'),
        ("x" * 200_000 + " = 1", 'xxx…": unknown key'),
        (
            "[[rules]]\nkeywords = ['a']\nmodel = 'gpt-4o-mini'\n" * 1_001,
            "rules: must have at most 1,000 entries",
        ),
        (
            "[[heuristics]]\nwhen = 'tools'\nmodel = 'x'\n" * 1_001,
            "heuristics: must have at most 1,000 entries",
        ),
        ("#\n" * 20_000, "the text has more than 20,000 lines"),
    ],
)
async def test_a_hostile_text_is_refused_with_its_line(
    maker: ChangeMaker, acme: Path, text: str, error: str
) -> None:
    before = bytes_of(acme)
    errors = await refused(maker, workspaces.TEXT, AT_ACME, text=f"name = 'x'\n{text}")
    assert error in errors["text"]
    assert len(errors["text"]) < 2_000
    assert bytes_of(acme) == before


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"key{number} = 1\n" for number in range(1_000)),
        "".join(f"[table{number}]\n" for number in range(1_000)),
        "".join(f"[[rules]]\nkeywords = ['a']\nmodel = 'gpt{number}'\n" for number in range(300)),
        "[[rules]]\n" * 1_000,
        "".join(f"[byok.x{number}]\nsecret = 'env:X'\n" for number in range(300)),
    ],
)
async def test_a_text_with_many_errors_shows_the_first(maker: ChangeMaker, acme: Path, text: str) -> None:
    errors = await refused(maker, workspaces.TEXT, AT_ACME, text=f"name = 'x'\n{text}")
    *shown, last = errors["text"].split("\n")
    assert len(shown) == MAX_ERRORS
    assert all(line.startswith("line ") for line in shown)
    assert last == MORE_ERRORS
