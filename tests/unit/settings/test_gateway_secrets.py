"""No workspace may use a secret of the gateway: not its variable, not its file, not the same value by another name."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from rig.large import sampled
from rig.service_accounts import key_file, pem, rsa_key
from rig.settings_files import ACME, CONF, PROVIDERS, edit, write_files

from addon.settings.checked_files import check_files
from addon.settings.errors import SettingsError
from addon.settings.gateway_secrets import GatewaySecrets, SecretUse
from addon.settings.sealed_secrets import MasterKeys, make_master_key
from addon.settings.settings import SettingsFiles, load_settings
from addon.settings.value_types import parse_secret

MASTER, CLEAR, ACCOUNT = (
    make_master_key(),
    "sk-obviously-fake-platform",
    key_file("https://example.com/token"),
)
PASSWORD, AWS_SECRET = "correct horse battery", "obviously-fake-aws-secret"
ENV = {
    "OPENAI_KEY": CLEAR,
    "CONSOLE": PASSWORD,
    "HOOK": "https://hooks.example.com/obviously-fake",
    "SIGN": "obviously-fake-signature",
    "PROXY": "http://user:obviously-fake-proxy@proxy.example.com:3128",
    "REDIS": "redis://:obviously-fake-redis@127.0.0.1:6379/0",
    "AWS_ACCESS_KEY_ID": "OBVIOUSLYFAKEID",
    "AWS_SECRET_ACCESS_KEY": AWS_SECRET,
    "ACCOUNT": ACCOUNT,
    "TOLLGATE_SECRET_KEY": MASTER,
}
"""The secrets of the gateway. A case adds others, by which a workspace names the same."""

SETTINGS = """
[admin]
console_password = "env:CONSOLE"
[alerts]
webhook = "env:HOOK"
secret = "env:SIGN"
[upstream]
proxy = "env:PROXY"
[state]
redis_url = "env:REDIS"
"""
MORE_PROVIDERS = f"""
[AWS]
base_url = "https://bedrock-runtime.us-east-1.amazonaws.com"
dialect = "bedrock"
auth = "aws_sigv4"
platform_key = "env:AWS_ACCESS_KEY_ID"
[VERTEX]
base_url = "https://vertex.example.com"
dialect = "gemini"
auth = "google_service_account"
platform_key = "env:ACCOUNT"
[SEALED]
base_url = "https://sealed.example.com"
dialect = "openai"
platform_keys = ["sealed:{MasterKeys(MASTER).seal("sk-obviously-fake-sealed")}", "file:../secrets/platform"]
"""

# the reference of the workspace, further variables, the place that uses the same secret
NAMED: dict[str, tuple[str, Mapping[str, str], str]] = {
    "the variable of a platform key": ("env:OPENAI_KEY", {}, "providers.toml: OPENAI.platform_key"),
    "one that is not set": ("env:GROQ_KEY", {}, "providers.toml: GROQ.platform_key"),
    "the console's password": ("env:CONSOLE", {}, "proxy.conf: admin.console_password"),
    "the webhook": ("env:HOOK", {}, "proxy.conf: alerts.webhook"),
    "the signature of alerts": ("env:SIGN", {}, "proxy.conf: alerts.secret"),
    "the egress proxy": ("env:PROXY", {}, "proxy.conf: upstream.proxy"),
    "Redis, which is not used": ("env:REDIS", {}, "proxy.conf: state.redis_url"),
    "the master key": ("env:TOLLGATE_SECRET_KEY", {}, "the master key"),
    "the file of the master key": ("env:TOLLGATE_SECRET_KEY_FILE", {}, "the master key"),
    "the id of AWS": ("env:AWS_ACCESS_KEY_ID", {}, "providers.toml: AWS.platform_key"),
    "the secret next to an id": ("env:AWS_SECRET_ACCESS_KEY", {}, "providers.toml: AWS.platform_key"),
    "a token that is not set": ("env:AWS_SESSION_TOKEN", {}, "providers.toml: AWS.platform_key"),
    "the file of a platform key": (
        "file:../../secrets/platform",
        {},
        "providers.toml: SEALED.platform_keys[1]",
    ),
    "a link to it": ("file:link", {}, "providers.toml: SEALED.platform_keys[1]"),
    "a folder that is a link": ("file:folder/platform", {}, "providers.toml: SEALED.platform_keys[1]"),
    "proxy.conf itself": ("file:../../proxy.conf", {}, "proxy.conf"),
    "the ledger": ("file:../../var/tollgate.db", {}, "proxy.conf: paths.database"),
    "the keys of sessions": ("file:../../var/console.keys", {}, "the sessions of the console"),
    "the default file of master keys": ("file:../../var/master.keys", {}, "the master key"),
    "the same value": ("env:MINE", {"MINE": f" {CLEAR}\n"}, "providers.toml: OPENAI.platform_key"),
    "the value in a copied file": ("file:copy", {}, "providers.toml: SEALED.platform_keys[1]"),
    "the value of a sealed key": (
        "env:MINE",
        {"MINE": "sk-obviously-fake-sealed"},
        "providers.toml: SEALED.platform_keys[0]",
    ),
    "the value, sealed": (
        f"sealed:{MasterKeys(MASTER).seal(CLEAR)}",
        {},
        "providers.toml: OPENAI.platform_key",
    ),
    "the value of the master key": ("env:MINE", {"MINE": MASTER}, "the master key"),
    "the secret of AWS": ("env:MINE", {"MINE": AWS_SECRET}, "providers.toml: AWS.platform_key"),
    "the password of the proxy": (
        "env:MINE",
        {"MINE": "obviously-fake-proxy"},
        "proxy.conf: upstream.proxy",
    ),
    "the same password of Redis in another URL": (
        "env:MINE",
        {"MINE": "redis://:obviously-fake-redis@127.0.0.1:6379/1"},
        "proxy.conf: state.redis_url",
    ),
    "the secret of AWS behind another id": (
        "env:MINE",
        {"MINE": f"OTHERID:{AWS_SECRET}"},
        "providers.toml: AWS.platform_key",
    ),
    "several master keys": ("env:MINE", {"MINE": f"{MASTER},{make_master_key()}"}, "the master key"),
    "the same key next to a name": (
        "env:MINE",
        {"MINE": f"user:{CLEAR}"},
        "providers.toml: OPENAI.platform_key",
    ),
    "the password of Redis": ("env:MINE", {"MINE": "obviously-fake-redis"}, "proxy.conf: state.redis_url"),
}


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    conf_file = write_files(tmp_path)
    edit(conf_file, "[billing]", f"{SETTINGS}\n[billing]")
    edit(tmp_path / PROVIDERS, "", MORE_PROVIDERS)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "platform").write_text("sk-obviously-fake-file\n")
    workspaces = (tmp_path / ACME).parent
    (workspaces / "copy").write_text("sk-obviously-fake-file")
    (workspaces / "link").symlink_to("../../secrets/platform")
    (workspaces / "folder").symlink_to(tmp_path / "secrets")
    return conf_file


def name(conf_file: Path, reference: str, provider: str = "GROQ") -> None:
    edit(conf_file.parent / ACME, "", f'\n[byok.{provider}]\nsecret = "{reference}"\n')


@sampled(every=3)
@pytest.mark.parametrize("case", NAMED)
def test_a_workspace_can_not_name_a_secret_of_the_gateway(conf_file: Path, case: str) -> None:
    reference, others, place = NAMED[case]
    name(conf_file, reference)
    env = {**ENV, **others}
    with pytest.raises(SettingsError) as caught:
        load_settings(conf_file, env)
    assert (caught.value.file, caught.value.key) == (conf_file.parent / ACME, "byok.GROQ.secret")
    assert caught.value.reason.startswith("is a secret of the gateway, which no workspace may use")
    assert caught.value.reason.endswith(f"{conf_file.parent}/{place}" if ".conf" in place else place)
    assert not [value for value in env.values() if value.strip() in str(caught.value)]
    assert str(caught.value) in map(str, check_files(conf_file, env).errors)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_service_account_is_known_by_its_private_key(conf_file: Path, indent: int | None) -> None:
    account = {**json.loads(ACCOUNT), "client_email": "other@example.com"}
    name(conf_file, "env:MINE", "VERTEX")
    with pytest.raises(SettingsError, match=r"that of .*providers\.toml: VERTEX\.platform_key"):
        load_settings(conf_file, {**ENV, "MINE": json.dumps(account, indent=indent)})


@pytest.mark.parametrize(
    "redis", ["redis://127.0.0.1:6379/0", "redis://:obviously-fake-redis@127.0.0.1:6379/0"]
)
def test_the_host_of_a_url_is_no_secret(conf_file: Path, redis: str) -> None:
    name(conf_file, "env:MINE", "VERTEX")
    mine = key_file("http://127.0.0.1:4000/token", private_key=pem(rsa_key("customer")))
    byok = load_settings(conf_file, {**ENV, "REDIS": redis, "MINE": mine}).workspaces["acme"].byok
    assert byok["VERTEX"].secret is not None


@pytest.mark.parametrize("reference", ["env:MINE", "file:mine", f"sealed:{MasterKeys(MASTER).seal('mine')}"])
def test_a_customers_own_secret_loads(conf_file: Path, reference: str) -> None:
    (conf_file.parent / ACME).with_name("mine").write_text("mine")
    name(conf_file, reference)
    secret = load_settings(conf_file, {**ENV, "MINE": "mine"}).workspaces["acme"].byok["GROQ"].secret
    assert secret is not None
    assert secret.get_secret_value() == "mine"


def look_at(files: SettingsFiles, change: Callable[[], object]) -> SettingsFiles:
    settings = files.load()
    change()
    for now_s in (1.0, 2.0):
        files.look(now_s, settings.conf)
    return files


def test_a_last_good_text_that_names_one_serves_without_it(conf_file: Path) -> None:
    """As after an upgrade: an older version has served the text."""
    name(conf_file, "env:OPENAI_KEY")
    last_good = conf_file.parent / "var" / "last-good" / "acme.toml"
    last_good.parent.mkdir(parents=True)
    last_good.write_bytes((conf_file.parent / ACME).read_bytes())
    settings = SettingsFiles(conf_file, ENV).load()
    assert "is a secret of the gateway" in settings.problems[0].reason
    own = settings.workspaces["acme"].byok["GROQ"]
    assert (own.secret, own.variable) == (None, "OPENAI_KEY")


def test_a_secret_that_the_gateway_begins_to_use_is_taken_from_the_workspace(conf_file: Path) -> None:
    name(conf_file, "env:MINE")
    files = SettingsFiles(conf_file, {**ENV, "MINE": "obviously-fake-mine"})
    providers = conf_file.parent / PROVIDERS
    look_at(files, lambda: edit(providers, '"env:OPENAI_KEY"', '"env:MINE"'))
    settings = files.load()
    assert [problem.key for problem in settings.problems] == ["byok.GROQ.secret"]
    assert settings.workspaces["acme"].byok["GROQ"].secret is None


def test_a_secret_of_a_file_that_is_lost_and_taken_is_not_kept(conf_file: Path) -> None:
    mine = (conf_file.parent / ACME).with_name("mine")
    mine.write_text("obviously-fake-mine")
    name(conf_file, "file:mine")
    files = SettingsFiles(conf_file, {**ENV, "TAKEN": "obviously-fake-mine"})

    def take() -> None:
        mine.unlink()
        edit(conf_file.parent / PROVIDERS, '"env:OPENAI_KEY"', '"env:TAKEN"')

    look_at(files, take)
    assert files.load().workspaces["acme"].byok["GROQ"].secret is None


def test_no_place_shows_a_value(conf_file: Path) -> None:
    used = SecretUse(conf_file, "admin.console_password", parse_secret("env:CONSOLE"))
    shown = repr(GatewaySecrets.of([used], {conf_file: "x"}, {PASSWORD: "y"}))
    assert PASSWORD not in shown
    assert "CONSOLE" in shown


def test_a_certificate_with_its_key_is_known_by_its_path(conf_file: Path) -> None:
    certificate = conf_file.parent / "tls.pem"
    used = GatewaySecrets.of([], {certificate: "proxy.conf: listen.tls_certificate"}, {})
    certificate.write_text("a certificate")
    found = used.find_reference(parse_secret("file:x/../tls.pem"), conf_file.parent)
    assert found == f"{CONF}: listen.tls_certificate"
