"""The catalog: its providers with their keys, families and models, and the sandbox."""

import json
from pathlib import Path

import pytest
from pydantic import SecretStr
from rig.service_accounts import key_file
from rig.settings_files import ACME, MODELS, PROVIDERS, SECRET, edit, write_files

from addon.settings.errors import SettingsError
from addon.settings.settings import Settings, load_settings
from policies.family import Family
from policies.prices import Prices
from policies.refusal import Refusal
from policies.request_facts import RequestFacts

OPENAI_KEY = 'platform_key = "env:OPENAI_KEY"'
OPENAI = 'dialect = "openai"\nplatform_key = "env:OPENAI_KEY"'
URL = '"https://api.openai.com/v1/"'
KEYS = {"OPENAI_KEY": "sk-obviously-fake"}
HELLO = RequestFacts("gpt-4o-mini", {"messages": [{"role": "user", "content": "hello"}]})


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    return write_files(tmp_path)


def load_edited(conf_file: Path, new: str, old: str = OPENAI_KEY, **env: str) -> Settings:
    edit(conf_file.parent / PROVIDERS, old, new)
    return load_settings(conf_file, env)


def service_account() -> str:
    return key_file("https://oauth2.googleapis.com/token")


@pytest.mark.parametrize(
    ("dialect", "auth"), [("openai", "bearer"), ("anthropic", "x-api-key"), ("gemini", "x-goog-api-key")]
)
def test_each_dialect_has_a_default_for_sending_keys(conf_file: Path, dialect: str, auth: str) -> None:
    settings = load_edited(conf_file, OPENAI.replace("openai", dialect), OPENAI)
    provider = settings.providers["OPENAI"]
    assert (provider.dialect, provider.auth) == (dialect, auth)


def test_a_provider_has_its_auth_path_and_headers(conf_file: Path) -> None:
    path = "/openai/deployments/{model}/chat/completions?api-version=2024-10-21"
    added = f'auth = "api-key"\nchat_path = "{path}"\nheaders = {{ x-title = "Acme", x-a = "b c" }}'
    provider = load_edited(conf_file, f"{OPENAI_KEY}\n{added}").providers["OPENAI"]
    assert (provider.auth, provider.chat_path) == ("api-key", path)
    assert provider.headers == {"x-title": "Acme", "x-a": "b c"}


def test_a_provider_without_auth_serves_payg_calls_without_a_key(conf_file: Path) -> None:
    settings = load_edited(conf_file, 'auth = "none"')
    route = settings.routes.find(HELLO, settings.workspaces["acme"])
    assert route.targets[0].secrets == ()
    assert settings.sandbox_enabled, "a provider without auth does not end the sandbox"


def test_a_provider_with_auth_and_no_key_serves_no_payg_call(conf_file: Path) -> None:
    settings = load_settings(conf_file, {})
    with pytest.raises(Refusal, match="no platform key"):
        settings.routes.find(HELLO, settings.workspaces["acme"])


def test_a_provider_may_set_the_family_of_models_outside_the_catalog(conf_file: Path) -> None:
    settings = load_edited(conf_file, f'{OPENAI_KEY}\ncustom_family = "reasoning"')
    assert settings.providers["OPENAI"].custom_family == settings.families["reasoning"]
    assert settings.providers["GROQ"].custom_family == Family("custom")


def test_a_service_accounts_file_is_a_key(conf_file: Path) -> None:
    (conf_file.parent / "sa.json").write_text(service_account())
    settings = load_edited(conf_file, 'auth = "google_service_account"\nplatform_key = "file:../sa.json"')
    [key] = settings.providers["OPENAI"].platform_keys
    assert json.loads(key.get_secret_value()) == json.loads(service_account())
    assert "PRIVATE KEY" not in repr(settings)
    assert not settings.sandbox_enabled


def test_a_service_account_may_be_in_the_environment_or_be_a_customers(conf_file: Path) -> None:
    edit(conf_file.parent / ACME, "", '[byok.OPENAI]\nsecret = "env:ACME"\n')
    settings = load_edited(
        conf_file, f'auth = "google_service_account"\n{OPENAI_KEY}', ACME=service_account()
    )
    assert settings.providers["OPENAI"].platform_keys == ()
    assert settings.workspaces["acme"].byok["OPENAI"].secret is not None


AWS = 'dialect = "bedrock"\nauth = "aws_sigv4"\nplatform_key = "env:AWS_ACCESS_KEY_ID"'
AWS_TABLE = f"""
[AWS]
base_url = "https://bedrock-runtime.eu-central-1.amazonaws.com"
{AWS}
"""
THREE_VARIABLES = {
    "AWS_ACCESS_KEY_ID": "AKIAFAKE",
    "AWS_SECRET_ACCESS_KEY": "fake/secret",
    "AWS_SESSION_TOKEN": "fake/token==",
}


def load_aws(conf_file: Path, table: str = AWS_TABLE, **env: str) -> Settings:
    edit(conf_file.parent / PROVIDERS, "", table)
    return load_settings(conf_file, env)


def test_aws_credentials_are_in_the_variables_of_awss_own_tools(conf_file: Path) -> None:
    provider = load_aws(conf_file, **THREE_VARIABLES).providers["AWS"]
    [key] = provider.platform_keys
    assert key.get_secret_value() == "AKIAFAKE:fake/secret:fake/token=="
    assert (provider.aws_region, provider.aws_service) == ("eu-central-1", "bedrock")


@pytest.mark.parametrize(
    "text",
    [
        "AKIAFAKE:fake/secret",
        '{"AccessKeyId": "AKIAFAKE", "SecretAccessKey": "fake/secret", "SessionToken": null}',
    ],
)
def test_aws_credentials_may_be_one_secret(conf_file: Path, text: str) -> None:
    table = AWS_TABLE.replace("env:AWS_ACCESS_KEY_ID", "env:ONE")
    [key] = load_aws(conf_file, table, ONE=text).providers["AWS"].platform_keys
    assert key.get_secret_value() == "AKIAFAKE:fake/secret"


def test_without_an_access_key_the_provider_has_no_platform_key(conf_file: Path) -> None:
    assert load_aws(conf_file).providers["AWS"].platform_keys == ()


@pytest.mark.parametrize(
    ("table", "env", "said"),
    [
        (AWS_TABLE, {"AWS_ACCESS_KEY_ID": "AKIAFAKE"}, "AWS_SECRET_ACCESS_KEY is not set"),
        (AWS_TABLE.replace("AWS_ACCESS_KEY_ID", "ONE"), {"ONE": "AKIAFAKE"}, "are not ACCESS_KEY_ID:SECRET"),
        (
            AWS_TABLE.replace("bedrock-runtime.eu-central-1.amazonaws.com", "proxy.example"),
            {},
            "names no region",
        ),
        (AWS_TABLE + 'aws_region = "EU"', {}, "a name of AWS"),
        (
            AWS_TABLE.replace("aws_sigv4", "bearer") + 'aws_service = "bedrock"',
            {},
            'only for auth = "aws_sigv4"',
        ),
    ],
    ids=["no secret key", "one word", "no region", "no name", "another auth"],
)
def test_wrong_aws_settings_do_not_load(conf_file: Path, table: str, env: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_aws(conf_file, table, **env)
    assert said in str(caught.value)
    assert "AKIAFAKE" not in str(caught.value)


THREE = 'platform_keys = ["env:ONE", "env:TWO", "env:THREE"]'


def platform_keys(settings: Settings) -> list[str]:
    return [key.get_secret_value() for key in settings.providers["OPENAI"].platform_keys]


@pytest.mark.parametrize(
    ("env", "keys", "positions"),
    [
        ({"ONE": "sk-1", "TWO": "sk-2", "THREE": "sk-3"}, ["sk-1", "sk-2", "sk-3"], [1, 2, 3]),
        ({"TWO": "sk-2", "THREE": "sk-3"}, ["sk-2", "sk-3"], [2, 3]),
        ({"ONE": "sk-1", "TWO": " sk-1 ", "THREE": "sk-3"}, ["sk-1", "sk-3"], [1, 3]),
        ({"ONE": "", "TWO": "sk-2"}, ["sk-2"], [2]),
        ({}, [], []),
    ],
    ids=["all", "one is not set", "two are the same", "one is set", "none"],
)
def test_a_provider_has_each_platform_key_that_is_set_once_with_its_position(
    conf_file: Path, env: dict[str, str], keys: list[str], positions: list[int]
) -> None:
    settings = load_edited(conf_file, THREE, **env)
    assert platform_keys(settings) == keys
    provider = settings.providers["OPENAI"]
    assert (list(provider.key_places.values()), provider.keys_written) == (positions, 3)
    assert settings.sandbox_enabled is not bool(keys)
    assert not [key for key in keys if key in repr(settings)]


def test_a_single_platform_key_has_the_first_position(conf_file: Path) -> None:
    settings = load_edited(conf_file, OPENAI_KEY, OPENAI_KEY="sk-1")
    assert platform_keys(settings) == ["sk-1"]
    assert list(settings.providers["OPENAI"].key_places.values()) == [1]


def test_a_provider_may_have_several_service_accounts(conf_file: Path) -> None:
    accounts = [service_account(), key_file("https://oauth2.googleapis.com/token", private_key_id="key-2")]
    listed = 'auth = "google_service_account"\nplatform_keys = ["env:A", "file:../sa.json"]'
    (conf_file.parent / "sa.json").write_text(accounts[1])
    assert platform_keys(load_edited(conf_file, listed, A=accounts[0])) == accounts


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SECRET, "the service account is not a JSON object"),
        (json.dumps({"type": "service_account", "client_email": SECRET}), 'lacks "token_uri"'),
        (json.dumps({**json.loads(service_account()), "private_key": SECRET}), '"private_key" is not'),
        (json.dumps({**json.loads(service_account()), "token_uri": f"http://{SECRET}"}), '"token_uri" must'),
    ],
)
def test_a_wrong_service_account_is_refused_and_not_shown(conf_file: Path, text: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=rf"OPENAI\.platform_key: .*{reason}") as caught:
        load_edited(conf_file, f'auth = "google_service_account"\n{OPENAI_KEY}', OPENAI_KEY=text)
    assert SECRET not in str(caught.value)


def test_a_customers_key_is_refused_when_the_provider_takes_none(conf_file: Path) -> None:
    edit(conf_file.parent / ACME, "", '[byok.OPENAI]\nsecret = "env:X"\n')
    with pytest.raises(SettingsError, match=r"byok\.OPENAI: the provider takes no key"):
        load_edited(conf_file, 'auth = "none"')


def test_a_model_holds_its_provider_family_and_both_prices(conf_file: Path) -> None:
    model = load_settings(conf_file, KEYS).models["gpt-4o-mini"]
    assert model.provider.base_url == "https://api.openai.com/v1"
    assert model.provider.platform_keys == (SecretStr("sk-obviously-fake"),)
    assert model.upstream_model_id == "gpt-4o-mini-2024"
    assert model.family == Family("chat")
    assert model.wholesale == Prices(150_000, 75_000, 600_000)
    assert model.retail == Prices(156_000, 78_000, 624_000)
    assert model.max_completion_tokens == 16384
    assert model.context_window is None
    assert (model.byok_only, model.active) == (False, True)


def test_a_model_has_the_window_of_its_table(conf_file: Path) -> None:
    edit(conf_file.parent / MODELS, "16384", "16384\ncontext_window = 16384")
    assert load_settings(conf_file, KEYS).models["gpt-4o-mini"].context_window == 16384


def test_a_model_lacks_what_its_table_says(conf_file: Path) -> None:
    edit(conf_file.parent / MODELS, "16384", '16384\nlacks = ["images", "tools"]')
    models = load_settings(conf_file, KEYS).models
    assert models["gpt-4o-mini"].lacks == {"images", "tools"}
    assert models["openai/gpt-oss-20b"].lacks == frozenset()


def test_a_model_has_the_aliases_of_its_table(conf_file: Path) -> None:
    edit(conf_file.parent / MODELS, "16384", '16384\naliases = ["gpt-4o-mini-2024-07-18"]')
    settings = load_settings(conf_file, KEYS)
    assert settings.models["gpt-4o-mini"].aliases == ("gpt-4o-mini-2024-07-18",)
    asked = RequestFacts("gpt-4o-mini-2024-07-18", HELLO.fields)
    route = settings.routes.find(asked, settings.workspaces["acme"])
    assert (route.targets[0].model.slug, route.decided_by) == ("gpt-4o-mini", "catalog_alias")
    assert settings.routes.find(asked, settings.workspaces["acme"]) is route


def test_two_models_of_one_file_have_no_alias_in_common(conf_file: Path) -> None:
    edit(conf_file.parent / MODELS, "16384", '16384\naliases = ["Sandbox-Chat"]')
    with pytest.raises(
        SettingsError, match=r'gpt-4o-mini\.aliases\[0\]: "Sandbox-Chat" is the slug of another'
    ):
        load_settings(conf_file, KEYS)


def test_cached_input_costs_the_input_price_by_default(conf_file: Path) -> None:
    model = load_settings(conf_file, KEYS).models["openai/gpt-oss-20b"]
    assert model.wholesale.cached_input_microusd_per_mtok == 1_000_000
    assert model.byok_only


def test_a_family_has_every_setting_of_its_table(conf_file: Path) -> None:
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


@pytest.mark.parametrize(
    ("enabled", "env", "expected"),
    [
        ('"auto"', {}, True),
        ('"auto"', {"GROQ_KEY": "gsk-obviously-fake"}, False),
        ("true", {"GROQ_KEY": "gsk-obviously-fake"}, True),
        ("false", {}, False),
    ],
)
def test_proxy_conf_and_the_platform_keys_decide_on_the_sandbox(
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


def test_a_sandbox_that_is_switched_on_needs_a_builtin_provider(conf_file: Path) -> None:
    edit(conf_file, "", "[sandbox]\nenabled = true\n")
    edit(conf_file.parent / PROVIDERS, "builtin = true", f'base_url = {URL}\nplatform_key = "env:X"')
    with pytest.raises(SettingsError, match=r"sandbox\.enabled: providers\.toml names no builtin provider"):
        load_settings(conf_file, {})


def make_embedder(conf_file: Path) -> Path:
    """Let gpt-4o-mini make embeddings, and no workspace name it. Return the file of models."""
    models = conf_file.parent / MODELS
    edit(models, 'output_price_per_m = "0.6"', 'serves = "embeddings"')
    edit(models, "max_completion_tokens = 16384\n", "")
    edit(conf_file.parent / ACME, 'default_model = "gpt-4o-mini"', "")
    return models


def test_a_model_of_embeddings_has_no_price_and_no_maximum_of_an_output(conf_file: Path) -> None:
    make_embedder(conf_file)
    model = load_settings(conf_file, KEYS).models["gpt-4o-mini"]
    assert (model.serves, model.wholesale.output_microusd_per_mtok, model.max_completion_tokens) == (
        "embeddings",
        0,
        1,
    )


@pytest.mark.parametrize(
    ("file", "old", "new", "reason"),
    [
        (MODELS, 'serves = "embeddings"', "", r"gpt-4o-mini\.output_price_per_m: is required"),
        (
            MODELS,
            '"embeddings"',
            '"embeddings"\nmax_completion_tokens = 1',
            r"max_completion_tokens: must be absent",
        ),
        (
            MODELS,
            '"embeddings"',
            '"embeddings"\noutput_price_per_m = "1"',
            r"output_price_per_m: must be absent",
        ),
        (PROVIDERS, '"openai"', '"anthropic"', r"gpt-4o-mini\.serves: OPENAI has the dialect anthropic"),
        (
            ACME,
            'plan = "pro"',
            'fallback_model = "gpt-4o-mini"',
            r"fallback_model: \"gpt-4o-mini\" makes embeddings",
        ),
    ],
)
def test_what_serves_embeddings_is_checked(
    conf_file: Path, file: str, old: str, new: str, reason: str
) -> None:
    make_embedder(conf_file)
    edit(conf_file.parent / file, old, new)
    with pytest.raises(SettingsError, match=reason):
        load_settings(conf_file, KEYS)


def test_an_alias_of_a_workspace_may_name_a_model_of_embeddings(conf_file: Path) -> None:
    make_embedder(conf_file)
    edit(conf_file.parent / ACME, "", '\n[[aliases]]\nname = "embed"\nmodel = "gpt-4o-mini"\n')
    assert load_settings(conf_file, KEYS).workspaces["acme"].aliases.find("embed") == 0
