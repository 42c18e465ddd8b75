"""``tollgate check`` counts what the running gateway has as set, and says whose variables it used."""

from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from rig.checked import Checked
from rig.settings_files import ACME, CONF, edit

from addon.serve.environment_names import published_environment

EVERYTHING = {
    **{"OPENAI_KEY": "sk-1", "GROQ_KEY": "gsk-1", "REDIS_URL": "redis://:secret@10.0.0.1:6379/0"},
    **{"PROXY_URL": "http://proxy:3128", "HOOK": "https://hook.example.com/x", "PASSWORD": "a-long-password"},
}
SECRETS = """
[admin]
console_password = "env:PASSWORD"
[state]
backend = "redis"
redis_url = "env:REDIS_URL"
[upstream]
proxy = "env:PROXY_URL"
[alerts]
webhook = "env:HOOK"
"""
EMPTY = {"OPENAI_KEY": "", "GROQ_KEY": ""}


@pytest.fixture
def database(folder: Path) -> Path:
    return folder / "var" / "tollgate.db"


def test_keys_that_only_the_running_gateway_has_are_not_missed(folder: Path, database: Path) -> None:
    edit(folder / CONF, "", SECRETS)
    alone = Checked(folder, **EMPTY)
    assert alone.status == 1
    with published_environment(database, folder / CONF, EVERYTHING):
        found = Checked(folder, **EMPTY)
        partly = Checked(folder)
    assert (found.status, found.lines) == (0, [])
    assert (partly.status, partly.lines) == (0, [])
    assert found.report["platform_models"] == {"OPENAI": 1}
    assert found.report["environment"] == "gateway"
    assert "environment variables: those of the running gateway (process " in found.stdout


def test_a_key_that_the_running_gateway_lacks_is_missed_though_the_shell_has_it(
    folder: Path, database: Path
) -> None:
    with published_environment(database, folder / CONF, {"GROQ_KEY": "gsk-1"}):
        found = Checked(folder)
    unset, unserved = found.lines
    assert "OPENAI.platform_key: OPENAI_KEY is not set" in unset
    assert "gpt-4o-mini serves no call: OPENAI has no platform key" in unserved


def test_sealed_secrets_count_as_set_where_only_the_gateway_has_the_master_key(
    folder: Path, database: Path
) -> None:
    token = Fernet(Fernet.generate_key()).encrypt(b"sk-1").decode()
    edit(folder / ACME, "", f'\n[byok.OPENAI]\nsecret = "sealed:{token}"\nrouting = true\n')
    assert Checked(folder).status == 1
    with published_environment(database, folder / CONF, {"TOLLGATE_SECRET_KEY": "x", "OPENAI_KEY": "sk-1"}):
        assert Checked(folder).lines == []


def test_a_gateway_whose_variables_cant_be_read_is_named(folder: Path, database: Path) -> None:
    with published_environment(database, folder / CONF, EVERYTHING):
        [file] = database.parent.iterdir()
        file.write_text("not JSON")
        found = Checked(folder)
    assert "this shell's; those of the running gateway can't be read" in found.stdout
    assert found.report["environment"] == "shell"
