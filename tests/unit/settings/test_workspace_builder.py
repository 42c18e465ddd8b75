"""A workspace has the settings of its file, and its name is a valid id."""

from pathlib import Path

import pytest
from pydantic import SecretStr
from rig.settings_files import BETA, HASH_A, HASH_B, edit, write_files

from addon.settings.errors import SettingsError
from addon.settings.settings import Settings, load_settings
from policies.aliases import Alias
from policies.model import Byok
from policies.routing_rules import Heuristic, KeywordRule

EVERY_KEY = """
rpm_override = 600
monthly_spend_cap_usd = "250"
overage_protection = true
fallback_model = "openai/gpt-oss-20b"
safety_net = true
"""
EVERY_TABLE = """
[[keys]]
id = "capped"
hash = "sha256:dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
spend_cap_usd = "20.5"
spend_reset = "monthly"
request_cap = 10000
request_reset = "daily"

[byok.OPENAI]
secret = "env:ACME_KEY"
routing = true

[byok.GROQ]
secret = "file:../../groq.secret"

[[rules]]
keywords = ["sql", "postgres"]
model = "gpt-4o-mini"

[[heuristics]]
when = "prompt_tokens_above"
threshold_tokens = 1000
model = "gpt-4o-mini"

[[heuristics]]
when = "images"
model = "gpt-4o-mini"

[[aliases]]
name = "claude-haiku-*"
model = "gpt-4o-mini"
"""


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    return write_files(tmp_path)


@pytest.fixture
def settings(conf_file: Path, tmp_path: Path) -> Settings:
    """Settings in which a workspace uses every key and table."""
    (tmp_path / "groq.secret").write_text("gsk-obviously-fake\n")
    acme = tmp_path / "policies/workspaces/acme.toml"
    edit(acme, 'plan = "pro"\n', f'plan = "pro"\n{EVERY_KEY}')
    edit(acme, "", EVERY_TABLE)
    return load_settings(conf_file, {"OPENAI_KEY": "sk-obviously-fake", "ACME_KEY": " sk-of-acme\n"})


def test_a_workspace_has_every_setting_of_its_file(settings: Settings) -> None:
    acme = settings.workspaces["acme"]
    assert (acme.name, acme.plan, acme.rpm_override) == ("Acme", "pro", 600)
    assert acme.monthly_spend_cap_nanousd == 250 * 10**9
    assert (acme.overage_protection, acme.safety_net) == (True, True)
    assert (acme.default_model, acme.fallback_model) == ("gpt-4o-mini", "openai/gpt-oss-20b")
    capped = acme.keys[2]
    assert (capped.spend_cap_nanousd, capped.spend_reset) == (20_500_000_000, "monthly")
    assert (capped.request_cap, capped.request_reset) == (10000, "daily")
    assert acme.byok == {
        "OPENAI": Byok(SecretStr("sk-of-acme"), True, "ACME_KEY"),
        "GROQ": Byok(SecretStr("gsk-obviously-fake"), False),
    }
    assert acme.rules == (KeywordRule(("sql", "postgres"), "gpt-4o-mini"),)
    assert acme.heuristics == (
        Heuristic("prompt_tokens_above", "gpt-4o-mini", 1000),
        Heuristic("images", "gpt-4o-mini"),
    )
    assert list(acme.aliases) == [Alias("claude-haiku-*", "gpt-4o-mini")]


def test_the_text_of_settings_shows_no_secret(settings: Settings) -> None:
    for secret in ("sk-obviously-fake", "sk-of-acme", "gsk-obviously-fake"):
        assert secret not in repr(settings)


def test_keys_are_indexed_by_hash_with_their_workspace_also_inactive_ones(conf_file: Path) -> None:
    settings = load_settings(conf_file, {})
    found = {
        hash_[:1]: (one.workspace.id, one.key.id, one.key.active) for hash_, one in settings.keys.items()
    }
    assert found == {"a": ("acme", "ci", True), "b": ("beta", "ci", True), "c": ("acme", "laptop", False)}
    assert settings.keys[HASH_A].workspace is settings.workspaces["acme"]
    assert settings.keys[HASH_B].workspace.plan == "standard"


def test_an_environment_variable_that_is_unset_or_blank_means_no_key(conf_file: Path, tmp_path: Path) -> None:
    edit(tmp_path / BETA, "", '[byok.GROQ]\nsecret = "env:BETA_KEY"\n')
    settings = load_settings(conf_file, {"OPENAI_KEY": "  "})
    assert settings.providers["OPENAI"].platform_keys == ()
    assert settings.providers["OPENAI"].unset_variables == ("OPENAI_KEY",)
    assert settings.workspaces["beta"].byok["GROQ"] == Byok(None, False, "BETA_KEY")


def test_a_workspace_file_must_have_a_name_that_is_an_id(conf_file: Path, tmp_path: Path) -> None:
    (tmp_path / BETA).rename(tmp_path / "policies/workspaces/be ta.toml")
    with pytest.raises(
        SettingsError, match="the file's name is the workspace's id; it must be at most 64 letters"
    ):
        load_settings(conf_file, {})
