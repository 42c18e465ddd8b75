"""How operators say where a provider is and how it is asked, and what of that is refused."""

import json
from pathlib import Path

import pytest
from rig.service_accounts import key_file
from rig.settings_files import edit, write_files

from addon.settings.errors import SettingsError
from addon.settings.settings import Settings, load_settings
from policies.family import Family
from policies.refusal import Refusal
from policies.request_facts import request_facts
from policies.routing import choose_route

PROVIDERS = "catalog_data/providers.toml"
ACME = "policies/workspaces/acme.toml"
OPENAI_KEY = 'platform_key = "env:OPENAI_KEY"'
OPENAI = 'dialect = "openai"\nplatform_key = "env:OPENAI_KEY"'
SECRET = "sk-obviously-fake-secret"
HELLO = request_facts("gpt-4o-mini", {"messages": [{"role": "user", "content": "hello"}]})


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    return write_files(tmp_path)


def loaded(conf_file: Path, new: str, old: str = OPENAI_KEY, **env: str) -> Settings:
    edit(conf_file.parent / PROVIDERS, old, new)
    return load_settings(conf_file, env)


def service_account() -> str:
    return key_file("https://oauth2.googleapis.com/token")


@pytest.mark.parametrize(
    ("dialect", "auth"), [("openai", "bearer"), ("anthropic", "x-api-key"), ("gemini", "x-goog-api-key")]
)
def test_each_dialect_has_its_usual_way_to_show_a_key(conf_file: Path, dialect: str, auth: str) -> None:
    settings = loaded(conf_file, OPENAI.replace("openai", dialect), OPENAI)
    provider = settings.providers["OPENAI"]
    assert (provider.dialect, provider.auth) == (dialect, auth)


def test_a_provider_says_how_it_is_asked(conf_file: Path) -> None:
    path = "/openai/deployments/{model}/chat/completions?api-version=2024-10-21"
    added = f'auth = "api-key"\nchat_path = "{path}"\nheaders = {{ x-title = "Acme", x-a = "b c" }}'
    provider = loaded(conf_file, f"{OPENAI_KEY}\n{added}").providers["OPENAI"]
    assert (provider.auth, provider.chat_path) == ("api-key", path)
    assert provider.headers == {"x-title": "Acme", "x-a": "b c"}


def test_a_provider_without_auth_serves_payg_calls_without_a_key(conf_file: Path) -> None:
    settings = loaded(conf_file, 'auth = "none"')
    route = choose_route(HELLO, settings.workspaces["acme"], settings.models, settings.providers)
    assert route.attempts[0].secrets == ()
    assert settings.sandbox_enabled, "a provider without a key is no reason to end the sandbox"


def test_a_provider_with_auth_and_no_key_serves_no_payg_call(conf_file: Path) -> None:
    settings = load_settings(conf_file, {})
    with pytest.raises(Refusal, match="no platform key"):
        choose_route(HELLO, settings.workspaces["acme"], settings.models, settings.providers)


def test_a_provider_names_the_family_of_its_models_outside_the_catalog(conf_file: Path) -> None:
    settings = loaded(conf_file, f'{OPENAI_KEY}\ncustom_family = "reasoning"')
    assert settings.providers["OPENAI"].custom_family == settings.families["reasoning"]
    assert settings.providers["GROQ"].custom_family == Family("custom")


def test_a_service_accounts_file_is_a_key(conf_file: Path) -> None:
    (conf_file.parent / "sa.json").write_text(service_account())
    settings = loaded(conf_file, 'auth = "google_service_account"\nplatform_key = "file:../sa.json"')
    [key] = settings.providers["OPENAI"].platform_keys
    assert json.loads(key.get_secret_value()) == json.loads(service_account())
    assert "PRIVATE KEY" not in repr(settings)
    assert not settings.sandbox_enabled


def test_a_service_account_may_stand_in_the_environment_and_be_a_customers(conf_file: Path) -> None:
    edit(conf_file.parent / ACME, "", '[byok.OPENAI]\nsecret = "env:ACME"\n')
    settings = loaded(conf_file, f'auth = "google_service_account"\n{OPENAI_KEY}', ACME=service_account())
    assert settings.providers["OPENAI"].platform_keys == ()
    assert settings.workspaces["acme"].byok["OPENAI"].secret is not None


THREE = 'platform_keys = ["env:ONE", "env:TWO", "env:THREE"]'


def shown(settings: Settings) -> list[str]:
    return [key.get_secret_value() for key in settings.providers["OPENAI"].platform_keys]


@pytest.mark.parametrize(
    ("env", "keys", "places"),
    [
        ({"ONE": "sk-1", "TWO": "sk-2", "THREE": "sk-3"}, ["sk-1", "sk-2", "sk-3"], [1, 2, 3]),
        ({"TWO": "sk-2", "THREE": "sk-3"}, ["sk-2", "sk-3"], [2, 3]),
        ({"ONE": "sk-1", "TWO": " sk-1 ", "THREE": "sk-3"}, ["sk-1", "sk-3"], [1, 3]),
        ({"ONE": "", "TWO": "sk-2"}, ["sk-2"], [2]),
        ({}, [], []),
    ],
    ids=["all", "one is not set", "two are the same", "one is set", "none"],
)
def test_a_provider_has_those_of_its_platform_keys_that_are_set_each_once_and_knows_their_places(
    conf_file: Path, env: dict[str, str], keys: list[str], places: list[int]
) -> None:
    settings = loaded(conf_file, THREE, **env)
    assert shown(settings) == keys
    provider = settings.providers["OPENAI"]
    assert (list(provider.key_places.values()), provider.keys_written) == (places, 3)
    assert settings.sandbox_enabled is not bool(keys)
    assert not [key for key in keys if key in repr(settings)]


def test_one_platform_key_is_the_first_and_only_place(conf_file: Path) -> None:
    settings = loaded(conf_file, OPENAI_KEY, OPENAI_KEY="sk-1")
    assert shown(settings) == ["sk-1"]
    assert list(settings.providers["OPENAI"].key_places.values()) == [1]


def test_service_accounts_may_be_several(conf_file: Path) -> None:
    accounts = [service_account(), key_file("https://oauth2.googleapis.com/token", private_key_id="key-2")]
    listed = 'auth = "google_service_account"\nplatform_keys = ["env:A", "file:../sa.json"]'
    (conf_file.parent / "sa.json").write_text(accounts[1])
    assert shown(loaded(conf_file, listed, A=accounts[0])) == accounts


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SECRET, "the service account is not a JSON object"),
        (json.dumps({"type": "service_account", "client_email": SECRET}), 'lacks "token_uri"'),
        (json.dumps({**json.loads(service_account()), "private_key": SECRET}), '"private_key" is no'),
        (json.dumps({**json.loads(service_account()), "token_uri": f"http://{SECRET}"}), '"token_uri" must'),
    ],
)
def test_a_service_account_that_can_not_serve_is_refused_unseen(
    conf_file: Path, text: str, said: str
) -> None:
    with pytest.raises(SettingsError, match=rf"OPENAI\.platform_key: .*{said}") as caught:
        loaded(conf_file, f'auth = "google_service_account"\n{OPENAI_KEY}', OPENAI_KEY=text)
    assert SECRET not in str(caught.value)


# what stands in place of the platform key, key at fault, fragment of the reason
REFUSED = {
    "unknown auth": (f'{OPENAI_KEY}\nauth = "basic"', "OPENAI.auth", "'bearer', 'api-key'"),
    "a key where none is taken": (f'{OPENAI_KEY}\nauth = "none"', "OPENAI.platform_key", "must be absent"),
    "keys where none is taken": (f'{THREE}\nauth = "none"', "OPENAI.platform_keys", "must be absent"),
    "a key and keys": (f"{OPENAI_KEY}\n{THREE}", "OPENAI.platform_key", "must be absent when platform_keys is"),
    "no keys": ("platform_keys = []", "OPENAI.platform_keys", "at least 1"),
    "a key that is no list": ('platform_keys = "env:ONE"', "OPENAI.platform_keys", "must be an array"),
    "a bare key": (f'platform_keys = ["env:ONE", "{SECRET}"]', "OPENAI.platform_keys[1]", "a bare secret"),
    "a key twice": ('platform_keys = ["env:A", "env:B", "env:A"]', "OPENAI.platform_keys[2]", "names the same"),
    "no such key file": (f'platform_keys = ["env:A", "file:{SECRET}"]', "OPENAI.platform_keys[1]", "can't be read"),
    "no key where one is": ('auth = "bearer"', "OPENAI.platform_key", "is required"),
    "a path that is none": (f'{OPENAI_KEY}\nchat_path = "chat"', "OPENAI.chat_path", 'begins with "/"'),
    "a path of two lines": (f'{OPENAI_KEY}\nchat_path = "/a\\nb"', "OPENAI.chat_path", "printable ASCII"),
    "a fragment": (f'{OPENAI_KEY}\nchat_path = "/a#b"', "OPENAI.chat_path", "without a fragment"),
    "another placeholder": (f'{OPENAI_KEY}\nchat_path = "/{{id}}"', "OPENAI.chat_path", "no placeholder but {model}"),
    "no such family": (f'{OPENAI_KEY}\ncustom_family = "chatt"', "OPENAI.custom_family", 'unknown family "chatt"; did'),
    "a family for nobody": ('auth = "none"\ncustom_family = "chat"', "OPENAI.custom_family", "customers' keys"),
    "half a placeholder": (f'{OPENAI_KEY}\nchat_path = "/{{model"', "OPENAI.chat_path", "must hold no placeholder"),
    "headers of numbers": (f"{OPENAI_KEY}\nheaders = {{ x-a = 1 }}", "OPENAI.headers.x-a", "valid string"),
    "two lines": (f'{OPENAI_KEY}\nheaders = {{ x-a = "{SECRET}\\r\\nx" }}', "OPENAI.headers.x-a", "a line"),
    "an empty header": (f'{OPENAI_KEY}\nheaders = {{ x-a = "" }}', "OPENAI.headers.x-a", "not empty"),
    "a header with capitals": (f'{OPENAI_KEY}\nheaders = {{ X-A = "b" }}', "OPENAI.headers.X-A", "lower case"),
    "a name with a space": (f'{OPENAI_KEY}\nheaders = {{ "x a" = "b" }}', 'OPENAI.headers."x a"', "name of a header"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_not_be_asked_is_refused_by_the_name_of_its_key(case: str, conf_file: Path) -> None:
    new, key, said = REFUSED[case]
    with pytest.raises(SettingsError) as caught:
        loaded(conf_file, new)
    assert caught.value.key == key
    assert said in caught.value.reason
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["authorization", "api-key", "x-api-key", "x-goog-api-key", "cookie"])
def test_a_header_that_bears_a_secret_is_refused(conf_file: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=r"a secret belongs in platform_key") as caught:
        loaded(conf_file, f'{OPENAI_KEY}\nheaders = {{ {name} = "{SECRET}" }}')
    assert caught.value.key == f"OPENAI.headers.{name}"
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["host", "content-length", "transfer-encoding", "connection", "content-type", "accept-encoding"]
)
def test_a_header_that_is_the_gateways_own_is_refused(conf_file: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=rf"OPENAI\.headers\.{name}: .*the gateway sets it itself"):
        loaded(conf_file, f'{OPENAI_KEY}\nheaders = {{ {name} = "x" }}')


def test_a_path_belongs_to_the_openai_dialect(conf_file: Path) -> None:
    with pytest.raises(SettingsError, match=r"OPENAI\.chat_path: is only for the dialect openai"):
        loaded(conf_file, OPENAI.replace("openai", "gemini") + '\nchat_path = "/x"', OPENAI)


def test_a_customers_key_for_a_provider_that_takes_none_is_refused(conf_file: Path) -> None:
    edit(conf_file.parent / ACME, "", '[byok.OPENAI]\nsecret = "env:X"\n')
    with pytest.raises(SettingsError, match=r"byok\.OPENAI: the provider takes no key"):
        loaded(conf_file, 'auth = "none"')
