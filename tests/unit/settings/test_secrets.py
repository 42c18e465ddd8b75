"""A sealed secret loads with its master key. Without it the file is refused with the key and the reason."""

import json
from pathlib import Path

import pytest
from rig.service_accounts import key_file
from rig.settings_files import ACME, PROVIDERS, SECRET, edit, write_files

from addon.settings.errors import SettingsError
from addon.settings.sealed_secrets import MasterKeys, make_master_key
from addon.settings.secrets import KEY_FILE_VARIABLE, KEY_VARIABLE
from addon.settings.settings import Settings, SettingsFiles, load_settings
from addon.settings.value_types import SecretReference

OPENAI_KEY = 'platform_key = "env:OPENAI_KEY"'
OLD, NEW = make_master_key(), make_master_key()
TOKEN = MasterKeys(OLD).seal(f" {SECRET}\n")


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    conf_file = write_files(tmp_path)
    edit(tmp_path / PROVIDERS, OPENAI_KEY, f'platform_key = "sealed:{TOKEN}"')
    return conf_file


@pytest.fixture
def key_path(tmp_path: Path) -> Path:
    """A file with two master keys that only its owner may read."""
    file = tmp_path / "master.keys"
    file.write_text(f"{NEW}\n{OLD}\n")
    file.chmod(0o600)
    return file


def platform_key(settings: Settings) -> str:
    [key] = settings.providers["OPENAI"].platform_keys
    return key.get_secret_value()


@pytest.mark.parametrize(
    "keys",
    [OLD, f"{NEW},{OLD}", f"{NEW} {OLD}", f" {OLD}\n"],
    ids=["the one", "comma", "space", "white space around"],
)
def test_a_sealed_platform_key_is_opened_by_the_master_keys_of_the_environment(
    conf_file: Path, keys: str
) -> None:
    settings = load_settings(conf_file, {KEY_VARIABLE: keys})
    assert platform_key(settings) == SECRET
    assert not settings.sandbox_enabled
    assert not [hidden for hidden in (SECRET, TOKEN, OLD, NEW) if hidden in repr(settings)]


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_sealed_platform_key_is_opened_by_the_master_keys_of_a_file(
    conf_file: Path, key_path: Path, mode: int
) -> None:
    key_path.chmod(mode)
    env = {KEY_FILE_VARIABLE: str(key_path), KEY_VARIABLE: " "}
    assert platform_key(load_settings(conf_file, env)) == SECRET


def test_a_key_file_is_read_again_when_its_mode_changes(conf_file: Path, key_path: Path) -> None:
    files = SettingsFiles(conf_file, {KEY_FILE_VARIABLE: str(key_path)})
    settings = files.load()
    key_path.chmod(0o644)
    for now_s in (0.0, 0.5):
        broken = files.look(now_s, settings.conf)
    assert "set its mode to 600" in str(broken.problems)
    key_path.chmod(0o600)
    for now_s in (1.0, 1.5):
        fixed = files.look(now_s, settings.conf)
    assert fixed.problems == ()


def test_the_keys_of_the_environment_win_over_those_of_the_file(conf_file: Path, key_path: Path) -> None:
    with pytest.raises(SettingsError, match="sealed with another"):
        load_settings(conf_file, {KEY_VARIABLE: NEW, KEY_FILE_VARIABLE: str(key_path)})


def test_a_customers_key_may_be_sealed(conf_file: Path) -> None:
    token = MasterKeys(OLD).seal("gsk-obviously-fake")
    edit(conf_file.parent / ACME, "", f'[byok.GROQ]\nsecret = "sealed:{token}"\n')
    settings = load_settings(conf_file, {KEY_VARIABLE: OLD})
    secret = settings.workspaces["acme"].byok["GROQ"].secret
    assert secret is not None
    assert secret.get_secret_value() == "gsk-obviously-fake"
    with pytest.raises(SettingsError) as caught:
        load_settings(conf_file, {KEY_VARIABLE: NEW})
    assert caught.value.key == "OPENAI.platform_key"


def test_a_service_account_of_many_lines_may_be_sealed(conf_file: Path) -> None:
    account = json.dumps(json.loads(key_file("https://oauth2.googleapis.com/token")), indent=2)
    sealed = f'platform_key = "sealed:{MasterKeys(OLD).seal(account)}"\nauth = "google_service_account"'
    edit(conf_file.parent / PROVIDERS, f'platform_key = "sealed:{TOKEN}"', sealed)
    assert platform_key(load_settings(conf_file, {KEY_VARIABLE: OLD})) == account


def test_files_without_a_sealed_secret_need_no_master_key(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    assert load_settings(
        conf_file, {KEY_VARIABLE: "no key", KEY_FILE_VARIABLE: "/no/such/file"}
    ).sandbox_enabled


def test_a_reference_does_not_show_its_token() -> None:
    assert TOKEN not in repr(SecretReference("sealed", TOKEN))


# the environment, part of the reason
REFUSED = {
    "no master key": (
        {},
        "no master key is set, in TOLLGATE_SECRET_KEY or the file that TOLLGATE_SECRET_KEY_FILE",
    ),
    "another master key": ({KEY_VARIABLE: NEW}, "is damaged, or sealed with another master key"),
    "a text that is not a key": (
        {KEY_VARIABLE: f"{OLD[:-3]}="},
        "TOLLGATE_SECRET_KEY is not made of master keys: number 1",
    ),
    "the key in place of its file": (
        {KEY_FILE_VARIABLE: OLD},
        "TOLLGATE_SECRET_KEY_FILE names can't be read: No such file",
    ),
    "a folder": ({KEY_FILE_VARIABLE: "."}, "TOLLGATE_SECRET_KEY_FILE names can't be read: Is a directory"),
}


def refusal(conf_file: Path, env: dict[str, str]) -> str:
    """Return the reason why the settings do not load. It is about the sealed key and does not show it."""
    with pytest.raises(SettingsError) as caught:
        load_settings(conf_file, env)
    assert (caught.value.file, caught.value.key) == (conf_file.parent / PROVIDERS, "OPENAI.platform_key")
    assert not [hidden for hidden in (SECRET, TOKEN, OLD, NEW, OLD[:-3]) if hidden in str(caught.value)]
    return caught.value.reason


@pytest.mark.parametrize("case", REFUSED)
def test_a_sealed_secret_without_its_master_key_is_refused_and_not_shown(conf_file: Path, case: str) -> None:
    env, reason = REFUSED[case]
    assert reason in refusal(conf_file, env)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o666, 0o660])
def test_a_key_file_that_others_may_use_is_refused(conf_file: Path, key_path: Path, mode: int) -> None:
    key_path.chmod(mode)
    reason = "users other than its owner have access; set its mode to 600"
    assert reason in refusal(conf_file, {KEY_FILE_VARIABLE: str(key_path)})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\n", "names holds no master key"),
        (b"\xff", "names is not UTF-8"),
        (b"# note\n", "number 1 is not"),
    ],
)
def test_a_key_file_without_keys_is_refused(
    conf_file: Path, key_path: Path, content: bytes, reason: str
) -> None:
    key_path.write_bytes(content)
    assert reason in refusal(conf_file, {KEY_FILE_VARIABLE: str(key_path)})


# the sealed text, the reason
NOT_SECRETS = {
    "nothing": (" \n", "the sealed secret is empty"),
    "two words": (f"{SECRET} {SECRET}", "the secret is not one word of printable ASCII"),
}


@pytest.mark.parametrize("case", NOT_SECRETS)
def test_a_sealed_text_that_can_not_be_a_secret_is_refused_and_not_shown(conf_file: Path, case: str) -> None:
    text, reason = NOT_SECRETS[case]
    edit(conf_file.parent / PROVIDERS, TOKEN, MasterKeys(OLD).seal(text))
    assert refusal(conf_file, {KEY_VARIABLE: OLD}) == reason


@pytest.mark.parametrize("cut", [1, 5, 60])
def test_half_a_token_is_refused_whether_or_not_there_is_a_master_key(conf_file: Path, cut: int) -> None:
    edit(conf_file.parent / PROVIDERS, TOKEN, TOKEN[:-cut])
    for env in ({}, {KEY_VARIABLE: OLD}):
        assert refusal(conf_file, env).startswith("is not a whole token")


def test_an_environment_variable_that_can_not_be_a_secret_is_refused_and_not_shown(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    with pytest.raises(SettingsError, match=r"GROQ\.platform_key: the secret is not one word") as caught:
        load_settings(conf_file, {"GROQ_KEY": f"{SECRET}\r\nX-Injected: 1"})
    assert SECRET not in str(caught.value)
