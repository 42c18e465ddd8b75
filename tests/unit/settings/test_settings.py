"""A good set of files becomes one frozen Settings that says what the files say."""

from dataclasses import FrozenInstanceError
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError
from rig.settings_files import HASH_A, HASH_B, edit, write_files

from addon.settings.errors import SettingsError
from addon.settings.settings import Settings, load_settings
from policies.family import Family
from policies.model import Byok, Heuristic, KeywordRule, Prices

KEYS = {"OPENAI_KEY": "sk-obviously-fake"}

EVERYTHING = """
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
"""


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    return write_files(tmp_path)


@pytest.fixture
def full(conf_file: Path, tmp_path: Path) -> Settings:
    """The set with every workspace setting in use."""
    (tmp_path / "groq.secret").write_text("gsk-obviously-fake\n")
    acme = tmp_path / "policies/workspaces/acme.toml"
    edit(acme, 'plan = "pro"\n', f'plan = "pro"\n{EVERYTHING}')
    edit(acme, "", EVERY_TABLE)
    return load_settings(conf_file, KEYS | {"ACME_KEY": " sk-of-acme\n"})


def test_paths_are_absolute_and_start_at_the_conf_file(
    conf_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = load_settings(Path("proxy.conf"), {}).conf.paths
    assert paths.catalog == tmp_path / "catalog_data"
    assert paths.workspaces == tmp_path / "policies" / "workspaces"
    assert paths.database == tmp_path / "var" / "tollgate.db"


def test_sections_and_keys_that_are_absent_have_their_defaults(conf_file: Path) -> None:
    conf = load_settings(conf_file, {}).conf
    assert (conf.listen.port, conf.listen.host, conf.admin.port) == (9000, "127.0.0.1", 8081)
    assert conf.upstream.idle_timeout_s == 60
    assert conf.billing.markup_percent == Decimal(4)


def test_a_model_holds_its_provider_family_and_both_prices(conf_file: Path) -> None:
    model = load_settings(conf_file, KEYS).models["gpt-4o-mini"]
    assert model.provider.base_url == "https://api.openai.com/v1"
    assert model.provider.platform_keys == (SecretStr("sk-obviously-fake"),)
    assert model.upstream_model_id == "gpt-4o-mini-2024"
    assert model.family == Family("chat")
    assert model.wholesale == Prices(150_000, 75_000, 600_000)
    assert model.retail == Prices(156_000, 78_000, 624_000)
    assert model.max_completion_tokens == 16384
    assert (model.byok_only, model.active) == (False, True)


def test_cached_input_costs_the_input_price_where_no_other_is_given(conf_file: Path) -> None:
    model = load_settings(conf_file, KEYS).models["openai/gpt-oss-20b"]
    assert model.wholesale.cached_input_microusd_per_mtok == 1_000_000
    assert model.byok_only


def test_a_family_is_what_its_table_says(conf_file: Path) -> None:
    assert load_settings(conf_file, KEYS).families["reasoning"] == Family(
        name="reasoning",
        cap_field="max_completion_tokens",
        drops=frozenset({"temperature", "top_p"}),
        clamps={"presence_penalty": (0, 1.5)},
        renames={"seed": "random_seed"},
        extra=frozenset({"reasoning_effort"}),
        stop_limit=4,
        n_limit=1,
        asks_stream_usage=False,
        reasoning_beside_completion=True,
        uncapped_completion_tokens=300,
        reasons_unseen=True,
        tokens_per_s=80,
    )


def test_keys_are_found_by_hash_with_their_workspace_also_inactive_ones(conf_file: Path) -> None:
    settings = load_settings(conf_file, KEYS)
    found = {hash_[:1]: (owner.id, key.id, key.active) for hash_, (owner, key) in settings.keys.items()}
    assert found == {"a": ("acme", "ci", True), "b": ("beta", "ci", True), "c": ("acme", "laptop", False)}
    assert settings.keys[HASH_A][0] is settings.workspaces["acme"]
    assert settings.keys[HASH_B][0].plan == "standard"


def test_every_setting_of_a_workspace_arrives(full: Settings) -> None:
    acme = full.workspaces["acme"]
    assert (acme.name, acme.plan, acme.rpm_override) == ("Acme", "pro", 600)
    assert acme.monthly_spend_cap_nanousd == 250 * 10**9
    assert (acme.overage_protection, acme.safety_net) == (True, True)
    assert (acme.default_model, acme.fallback_model) == ("gpt-4o-mini", "openai/gpt-oss-20b")
    capped = acme.keys[2]
    assert (capped.spend_cap_nanousd, capped.spend_reset) == (20_500_000_000, "monthly")
    assert (capped.request_cap, capped.request_reset) == (10000, "daily")
    assert acme.byok == {
        "OPENAI": Byok(SecretStr("sk-of-acme"), True),
        "GROQ": Byok(SecretStr("gsk-obviously-fake"), False),
    }
    assert acme.rules == (KeywordRule(("sql", "postgres"), "gpt-4o-mini"),)
    assert acme.heuristics == (
        Heuristic("prompt_tokens_above", "gpt-4o-mini", 1000),
        Heuristic("images", "gpt-4o-mini"),
    )


def test_an_environment_variable_that_is_unset_or_blank_means_no_key(conf_file: Path, tmp_path: Path) -> None:
    edit(tmp_path / "policies/workspaces/beta.toml", "", '[byok.GROQ]\nsecret = "env:BETA_KEY"\n')
    settings = load_settings(conf_file, {"OPENAI_KEY": "  "})
    assert settings.providers["OPENAI"].platform_keys == ()
    assert settings.workspaces["beta"].byok["GROQ"] == Byok(None, False)


def test_no_secret_is_in_the_text_of_settings(full: Settings) -> None:
    for secret in ("sk-obviously-fake", "sk-of-acme", "gsk-obviously-fake"):
        assert secret not in repr(full)


@pytest.mark.parametrize(
    ("enabled", "env", "expected"),
    [
        ('"auto"', {}, True),
        ('"auto"', {"GROQ_KEY": "gsk-obviously-fake"}, False),
        ("true", {"GROQ_KEY": "gsk-obviously-fake"}, True),
        ("false", {}, False),
    ],
)
def test_the_sandbox_is_there_as_proxy_conf_and_the_keys_say(
    conf_file: Path, enabled: str, env: dict[str, str], expected: bool
) -> None:
    edit(conf_file, "", f"[sandbox]\nenabled = {enabled}\n")
    settings = load_settings(conf_file, env)
    assert settings.sandbox_enabled is expected
    assert settings.models["sandbox-chat"].active is expected
    assert settings.models["gpt-4o-mini"].active


def test_without_a_builtin_provider_there_is_no_sandbox(conf_file: Path, tmp_path: Path) -> None:
    edit(tmp_path / "catalog_data/providers.toml", '[SANDBOX]\ndialect = "openai"\nbuiltin = true\n', "")
    models = tmp_path / "catalog_data/models.toml"
    models.write_text(models.read_text().partition('["sandbox-chat"]')[0])
    assert load_settings(conf_file, {}).sandbox_enabled is False


def test_the_builtin_url_reaches_the_builtin_provider_and_its_models_only(conf_file: Path) -> None:
    before = load_settings(conf_file, KEYS)
    after = before.with_builtin_url("http://127.0.0.1:5/v1/", SecretStr("made-up"))
    for provider in (after.providers["SANDBOX"], after.models["sandbox-chat"].provider):
        assert provider.base_url == "http://127.0.0.1:5/v1"
        assert provider.platform_keys == (SecretStr("made-up"),)
    assert after.models["gpt-4o-mini"] == before.models["gpt-4o-mini"]
    assert before.providers["SANDBOX"].base_url == ""


def test_the_command_line_overrides_listen_by_the_rules_of_the_file(conf_file: Path) -> None:
    settings = load_settings(conf_file, KEYS)
    overridden = settings.with_listen(port=0, host=None)
    assert (overridden.conf.listen.port, overridden.conf.listen.host) == (0, "127.0.0.1")
    assert overridden.written.listen.port == 9000
    with pytest.raises(SettingsError, match="command line: workers: must be greater than or equal to 1"):
        settings.with_listen(workers=0)


def test_settings_do_not_change(conf_file: Path) -> None:
    settings = load_settings(conf_file, KEYS)
    with pytest.raises(FrozenInstanceError):
        settings.sandbox_enabled = True  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        settings.conf.listen.port = 1  # type: ignore[misc]
    for mapping in (settings.models, settings.keys, settings.families["reasoning"].clamps):
        with pytest.raises(TypeError):
            mapping["x"] = None  # type: ignore[index]


def test_equal_files_load_equal_and_any_edit_changes_the_fingerprint(conf_file: Path, tmp_path: Path) -> None:
    first, second = load_settings(conf_file, KEYS), load_settings(conf_file, KEYS)
    assert first == second
    edit(tmp_path / "policies/workspaces/beta.toml", "", "# a comment\n")
    assert load_settings(conf_file, KEYS).fingerprint != first.fingerprint


def test_the_fingerprint_does_not_depend_on_secrets(conf_file: Path) -> None:
    assert load_settings(conf_file, {"OPENAI_KEY": "sk-fake-1"}).fingerprint == (
        load_settings(conf_file, {"OPENAI_KEY": "sk-fake-2"}).fingerprint
    )


def test_hidden_files_in_the_workspaces_folder_are_not_read(conf_file: Path, tmp_path: Path) -> None:
    (tmp_path / "policies/workspaces/.acme.toml").write_text("not TOML at all")
    assert list(load_settings(conf_file, KEYS).workspaces) == ["acme", "beta"]


def test_workspaces_may_stand_beside_proxy_conf(conf_file: Path) -> None:
    with conf_file.open("a", encoding="utf-8") as file:
        file.write('[paths]\nworkspaces = "."\n')
    assert load_settings(conf_file, KEYS).workspaces == {}
