"""``[state] redis_url``: a plain URL, or a reference to a secret URL."""

from pathlib import Path

import pytest
from rig.settings_files import edit, write_files

from addon.settings.errors import SettingsError
from addon.settings.overview import find_file_warnings
from addon.settings.redis_topology import NO_REDIS
from addon.settings.redis_url import hide_credentials
from addon.settings.sealed_secrets import MasterKeys, make_master_key
from addon.settings.secrets import KEY_VARIABLE
from addon.settings.settings import Settings, load_settings
from addon.store.backends import find_redis_url
from addon.store.protocol import StoreUnavailable

PASSWORD = "obviously-fake-password"
URL = f"rediss://:{PASSWORD}@redis.internal:6380/0"
PLAIN = "redis://redis.internal:6379/0"
NAMES_UNSET = "the environment variable that it names is not set"


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    return write_files(tmp_path)


def load(conf_file: Path, url: str, *, backend: str = "redis", **env: str) -> Settings:
    edit(conf_file, "[billing]", f'[state]\nbackend = "{backend}"\nredis_url = "{url}"\n\n[billing]')
    return load_settings(conf_file, {"OPENAI_KEY": "sk-obviously-fake", **env})


@pytest.mark.parametrize("kind", ["env", "file", "sealed"])
def test_a_secret_url_is_read_and_never_shown(
    conf_file: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    master_key = make_master_key()
    (conf_file.parent / "redis.url").write_text(f"{URL}\n")
    sealed = MasterKeys(master_key).seal(URL)
    env = {"REDIS_URL": URL, KEY_VARIABLE: master_key}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    setting = {"env": "env:REDIS_URL", "file": "file:redis.url", "sealed": f"sealed:{sealed}"}[kind]
    settings = load(conf_file, setting, **env)
    assert find_redis_url(settings.conf).get_secret_value() == URL
    assert PASSWORD not in repr(settings)
    assert "redis_password_bare" not in {one.kind for one in find_file_warnings(settings)}


@pytest.mark.parametrize(
    ("url", "has_password"),
    [
        (PLAIN, False),
        ("redis://user@redis.internal/0", False),
        ("unix:///run/redis.sock?db=1", False),
        (URL, True),
        (f"unix://:{PASSWORD}@/run/redis.sock", True),
        (f"redis://redis.internal/0?password={PASSWORD}", True),
    ],
)
def test_a_plain_url_loads_and_its_password_is_a_warning(
    conf_file: Path, url: str, has_password: bool
) -> None:
    settings = load(conf_file, url)
    assert find_redis_url(settings.conf).get_secret_value() == url
    assert PASSWORD not in repr(settings)
    warnings = [one for one in find_file_warnings(settings) if one.kind == "redis_password_bare"]
    assert [(one.file, one.key) for one in warnings] == [(conf_file, "state.redis_url")] * has_password
    assert PASSWORD not in str(warnings)


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("env:NOT_SET", NAMES_UNSET),
        ("env:EMPTY", NAMES_UNSET),
        ("env:HTTP_URL", NO_REDIS),
        (
            "redis+sentinel://h",
            "service: its name must follow the addresses, as in HOST:PORT,HOST:PORT/SERVICE",
        ),
        ("file:missing.url", "the file that it names can't be read as a secret"),
        (f"http://:{PASSWORD}@h", f"{NO_REDIS}, or be env:NAME, file:PATH or sealed:TOKEN"),
        (PASSWORD, f"{NO_REDIS}, or be env:NAME, file:PATH or sealed:TOKEN"),
    ],
)
def test_a_wrong_url_does_not_load(conf_file: Path, setting: str, reason: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(conf_file, setting, EMPTY="", HTTP_URL=f"http://:{PASSWORD}@h")
    assert str(refused.value) == f"{conf_file}: state.redis_url: {reason}"


def test_a_variable_that_is_not_set_opens_no_redis_and_does_not_matter_without_one(conf_file: Path) -> None:
    settings = load(conf_file, "env:REDIS_URL_THAT_IS_NOT_SET", backend="sqlite")
    with pytest.raises(StoreUnavailable, match=f"^state.redis_url: {NAMES_UNSET}$"):
        find_redis_url(settings.conf)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (PLAIN, PLAIN),
        (URL, "rediss://redis.internal:6380/0"),
        ("redis://user:word@h", "redis://h"),
        ("redis://h:1/2?password=word", "redis://h:1/2"),
        ("redis://:word@[::1]:1/2", "redis://[::1]:1/2"),
        ("unix:///run/redis.sock?password=word", "unix:///run/redis.sock"),
        ("unix://:word@/run/redis.sock", "unix:///run/redis.sock"),
        # A password that is not escaped ends the address too early.
        ("redis://:wo/rd@h:1/0", "a URL that is not shown"),
        ("redis://:12/34@h:1/0", "a URL that is not shown"),
        ("redis://:12#word@h", "a URL that is not shown"),
        ("redis://user:12?word@h", "a URL that is not shown"),
        ("redis://:word@h:port", "a URL that is not shown"),
        ("redis://h/word", "redis://h"),
        ("redis://[word", "a URL that is not shown"),
        ("word", "a URL that is not shown"),
    ],
)
def test_a_url_is_shown_without_its_credentials(url: str, shown: str) -> None:
    assert hide_credentials(url) == shown
