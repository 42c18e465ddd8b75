"""Own keys (BYOK) are sealed on arrival, and their secret is shown nowhere."""

import re
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from rig.settings_files import PROVIDERS, edit

from addon.console.changes import own_keys
from addon.console.changes.maker import ChangeMaker
from addon.settings.first_run import create_master_key
from unit.console.changes.test_forms import SECRET, refused, text_of
from unit.console.changes.test_maker import AT_ACME, lines, make


async def test_an_own_key_is_sealed_and_never_shown(
    maker: ChangeMaker, acme: Path, conf: Path, master_key: str
) -> None:
    before = text_of(acme)
    typed = {**await maker.read_current(own_keys.ADD, AT_ACME), "provider": "OPENAI", "secret": SECRET}
    token = await maker.show(own_keys.ADD, AT_ACME, typed)
    waiting = maker.waiting.get(token, "")
    assert waiting is not None
    assert SECRET not in f"{waiting.preview}{waiting.asked.typed}{waiting.asked.values}"
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


PROVIDERS_WITH_SECRETS = """
[BEDROCK]
base_url = "https://bedrock-runtime.us-east-1.amazonaws.com"
dialect = "bedrock"
auth = "aws_sigv4"
platform_key = "env:UNSET"

[VERTEX]
base_url = "https://vertex.example.com"
dialect = "gemini"
auth = "google_service_account"
platform_key = "env:UNSET"
"""


async def test_a_secret_has_the_form_of_its_provider(
    maker: ChangeMaker, acme: Path, conf: Path, master_key: str
) -> None:
    edit(conf.parent / PROVIDERS, "", PROVIDERS_WITH_SECRETS)
    for provider in ("BEDROCK", "VERTEX"):
        errors = await refused(maker, own_keys.ADD, AT_ACME, provider=provider, secret=SECRET)
        assert errors["secret"].startswith(f"byok.{provider}.secret: ")
        assert SECRET not in str(errors)
    await make(maker, own_keys.ADD, AT_ACME, provider="BEDROCK", secret=f"OBVIOUSLYFAKE:{SECRET}")
    assert "[byok.BEDROCK]" in text_of(acme)


async def test_without_a_master_key_no_secret_is_taken_before_the_first_start_makes_one(
    maker: ChangeMaker, conf: Path, acme: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOLLGATE_SECRET_KEY", raising=False)
    monkeypatch.delenv("TOLLGATE_SECRET_KEY_FILE", raising=False)
    assert "No secret can be sealed here: no master key is set" in str(
        await maker.find_obstacle(own_keys.ADD)
    )
    errors = await refused(maker, own_keys.ADD, AT_ACME, provider="OPENAI", secret=SECRET)
    assert "no master key is set" in errors["secret"]
    assert create_master_key(conf.parent / "var" / "master.keys")
    assert await maker.find_obstacle(own_keys.ADD) is None
    await make(maker, own_keys.ADD, AT_ACME, provider="OPENAI", secret=SECRET)
    assert 'secret = "sealed:' in text_of(acme)
