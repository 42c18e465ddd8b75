"""The forms of keys take what the commands take."""

import re
from pathlib import Path

import pytest
from rig.commands import tollgate
from rig.settings_files import edit

from addon.console.changes import keys
from addon.console.changes.maker import ChangeMaker
from unit.console.changes.test_forms import refused, text_of
from unit.console.changes.test_maker import AT_ACME, CI, make

FULL_KEY = """\
[[keys]]
id = "full"
hash = "sha256:%s"
label = "Full"
models = ["gpt-4o-mini"]
expires_at = 2099-01-01T00:00:00Z
spend_cap_usd = "5"
spend_reset = "daily"
request_cap = 7
request_reset = "weekly"
""" % ("f" * 64)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({}, ()),
        ({"without": "models, spend_cap_usd"}, ("--no-models", "--no-spend-cap")),
        (
            {"without": "expires_at,request_cap", "label": "x"},
            ("--no-expires", "--no-request-cap", "--label", "x"),
        ),
        ({"spend_cap_usd": "9", "models": "a*,b"}, ("--spend-cap", "9", "--models", "a*", "--models", "b")),
    ],
)
async def test_a_key_like_another_is_that_of_the_command(
    maker: ChangeMaker, conf: Path, acme: Path, typed: dict[str, str], words: tuple[str, ...]
) -> None:
    edit(acme, "", FULL_KEY)
    before = text_of(acme)
    await make(maker, keys.CREATE, AT_ACME, id="new", like="full", **typed)
    of_form = text_of(acme)
    edit(acme, of_form, before)
    made = tollgate(conf.parent, "keys", "create", "acme", "--id", "new", "--like", "full", *words)
    assert made.returncode == 0, made.stderr
    hashes = re.compile(r'hash = "sha256:\w+"')
    assert hashes.sub("", of_form) == hashes.sub("", text_of(acme))


async def test_long_lists_have_the_length_of_commands(maker: ChangeMaker, acme: Path) -> None:
    models = ", ".join(f"model-{number}*" for number in range(2_000))
    await make(maker, keys.SET, CI, models=models)
    assert text_of(acme).count('-7*"') == 1
    assert (await maker.read_current(keys.SET, CI))["models"] == models
    await make(maker, keys.SET, CI, label="still there")
    assert text_of(acme).count('-7*"') == 1


@pytest.mark.parametrize(
    ("typed", "errors"),
    [
        (
            {"without": "models"},
            {"without": "is only for a key with the settings of another"},
        ),
        (
            {"like": "ci", "without": "model"},
            {"without": 'unknown setting "model"; did you mean "models"?'},
        ),
        (
            {"like": "ci", "without": "models", "models": "a"},
            {"without": "models has a value of its own"},
        ),
        ({"like": "c"}, {"": 'has no key "c"'}),
    ],
)
async def test_a_setting_that_is_not_copied_is_checked(
    maker: ChangeMaker, typed: dict[str, str], errors: dict[str, str]
) -> None:
    found = await refused(maker, keys.CREATE, AT_ACME, **typed)
    assert found.keys() == errors.keys()
    assert all(reason in found[name] for name, reason in errors.items()), found
