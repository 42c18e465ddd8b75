"""``[upstream] proxy``: a URL without credentials, or a reference to a secret URL."""

import base64
from pathlib import Path

import pytest
from rig.settings_files import edit, write_files

from addon.settings.egress_proxy import EgressProxy, parse_proxy
from addon.settings.errors import SettingsError
from addon.settings.sealed_secrets import MasterKeys, make_master_key
from addon.settings.secrets import KEY_VARIABLE
from addon.settings.settings import SettingsFiles, load_settings

PASSWORD = "obviously-fake-password"
URL = f"http://user:{PASSWORD}@proxy.internal:3128"


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    return write_files(tmp_path)


def set_proxy(conf_file: Path, value: str) -> None:
    edit(conf_file, "[billing]", f'[upstream]\nproxy = "{value}"\n\n[billing]')


def test_without_a_proxy_connections_are_direct(conf_file: Path) -> None:
    assert load_settings(conf_file, {}).egress_proxy is None


def test_a_url_without_credentials_may_be_in_proxy_conf(conf_file: Path) -> None:
    set_proxy(conf_file, "http://proxy.internal:3128")
    assert load_settings(conf_file, {}).egress_proxy == EgressProxy("proxy.internal", 3128)


def test_a_url_with_credentials_is_a_secret_and_never_shown(conf_file: Path) -> None:
    master_key = make_master_key()
    (conf_file.parent / "proxy.url").write_text(f"{URL}\n")
    references = ("env:PROXY_URL", "file:proxy.url", f"sealed:{MasterKeys(master_key).seal(URL)}")
    for reference in references:
        set_proxy(conf_file, reference)
        settings = load_settings(conf_file, {"PROXY_URL": URL, KEY_VARIABLE: master_key})
        assert settings.egress_proxy == parse_proxy(URL)
        assert PASSWORD not in repr(settings)
        edit(conf_file, f'[upstream]\nproxy = "{reference}"\n\n', "")


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        (URL, "must not hold credentials; keep the whole URL as env:NAME or file:PATH"),
        ("https://proxy.internal", "must be http://HOST:PORT, env:NAME, file:PATH or sealed:TOKEN"),
        ("proxy.internal:3128", "must be http://HOST:PORT, env:NAME, file:PATH or sealed:TOKEN"),
        ("http://proxy.internal/path", "must not hold a path, a query or a fragment"),
        ("env:NOT_SET", "the environment variable that it names is not set"),
        ("file:missing.url", "the file that it names can't be read as a secret"),
        ("env:BROKEN_URL", "must begin with http://: the gateway sends CONNECT without TLS"),
    ],
)
def test_a_wrong_proxy_does_not_load(conf_file: Path, setting: str, reason: str) -> None:
    set_proxy(conf_file, setting)
    with pytest.raises(SettingsError) as refused:
        load_settings(conf_file, {"BROKEN_URL": f"socks5://user:{PASSWORD}@proxy.internal"})
    assert str(refused.value) == f"{conf_file}: upstream.proxy: {reason}"


def test_an_edit_and_a_renewed_password_take_effect(conf_file: Path) -> None:
    file = conf_file.parent / "proxy.url"
    file.write_text(URL)
    set_proxy(conf_file, "file:proxy.url")
    files = SettingsFiles(conf_file, {})
    settings = files.load()
    file.write_text(URL.replace(PASSWORD, "renewed"))
    for now_s in (0.0, 0.5, 1.0):
        settings = files.look(now_s, settings.conf)
    assert settings.egress_proxy == parse_proxy(URL.replace(PASSWORD, "renewed"))
    edit(conf_file, "file:proxy.url", "")
    for now_s in (1.5, 2.0, 2.5):
        settings = files.look(now_s, settings.conf)
    assert settings.egress_proxy is None


def test_valid_proxy_settings() -> None:
    proxy = parse_proxy("http://us%40er:p%3Aw@proxy.example:3128")
    assert (proxy.host, proxy.port) == ("proxy.example", 3128)
    assert proxy.authorization is not None
    credentials = base64.b64decode(proxy.authorization.get_secret_value().removeprefix("Basic "))
    assert credentials == b"us@er:p:w"
    assert credentials.decode() not in repr(proxy) and "Basic" not in repr(proxy)
    assert parse_proxy("http://proxy.example/") == EgressProxy("proxy.example", 80, None)
    assert parse_proxy("http://[::1]:3128") == EgressProxy("::1", 3128, None)
    assert EgressProxy("p", 80).make_connect_request("::1", 443).startswith(b"CONNECT [::1]:443 HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "url",
    [
        *("", "proxy.example:3128", f"https://u:{PASSWORD}@proxy.example", f"socks5://{PASSWORD}@x"),
        *(f"http://u:{PASSWORD}@", f"http://u:{PASSWORD}@h:port", f"http://u:{PASSWORD}@h:99999"),
        *(f"http://u:{PASSWORD}@h/path", f"http://h/?{PASSWORD}", f"http://h/#{PASSWORD}", "http://h:0"),
        *(f"http://u:{PASSWORD}@h\r\nx: y", f"http://u:{PASSWORD} @h", f"http://[{PASSWORD}]", "http://h%0d"),
    ],
)
def test_a_malformed_proxy_is_refused_and_never_shown(url: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_proxy(url)
    assert PASSWORD not in str(refused.value)
    assert refused.value.__cause__ is None
