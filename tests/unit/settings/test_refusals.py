"""Whatever is wrong in an operator's files is refused in one line: which file, which key, why. Never a secret."""

from pathlib import Path

import pytest
import trustme
from rig.settings_files import HASH_A, HASH_B, edit, write_files

from addon.settings.errors import SettingsError
from addon.settings.settings import load_settings

CONF = "proxy.conf"
PROVIDERS = "catalog_data/providers.toml"
FAMILIES = "catalog_data/families.toml"
MODELS = "catalog_data/models.toml"
ACME = "policies/workspaces/acme.toml"
BETA = "policies/workspaces/beta.toml"

SECRET = "sk-obviously-fake-secret"
PLAN = 'plan = "pro"\n'
URL = '"https://api.openai.com/v1/"'
OPENAI_KEY = '"env:OPENAI_KEY"'
PRICE = '"0.15"'


def plan_and(line: str) -> str:
    return f"{PLAN}{line}\n"


# file, old passage ("" = the end), new passage, key, fragment of the reason
EDITS = {
    # proxy.conf
    "unknown key": (CONF, "port = 9000", "prot = 9000", "listen.prot", 'unknown key; did you mean "port"?'),
    "unknown section": (CONF, "[listen]", "[listne]", "listne", 'unknown key; did you mean "listen"?'),
    "unknown key with braces": (CONF, "port", '"{port}"', 'listen."{port}"', 'did you mean "port"?'),
    "unknown key like no other": (
        CONF,
        "port",
        "zzz",
        "listen.zzz",
        "unknown key; known are drain_timeout_s, host",
    ),
    "section that is no table": (CONF, "", "[[limits]]\n", "limits", "must be a table"),
    "text for a port": (CONF, "9000", '"9000"', "listen.port", "must be a valid integer"),
    "boolean for a port": (CONF, "9000", "true", "listen.port", "must be a valid integer"),
    "port too high": (CONF, "9000", "65536", "listen.port", "65535"),
    "port too low": (CONF, "9000", "-1", "listen.port", "greater than or equal to 0"),
    "the public port as admin port": (CONF, "9000", "8081", "admin.port", "must differ from listen.port"),
    "host of two lines": (CONF, "9000", '1\nhost = "a\\nb"', "listen.host", "one line"),
    "empty host": (CONF, "9000", '1\nhost = ""', "listen.host", "not empty"),
    "too many workers": (CONF, "9000", "1\nworkers = 257", "listen.workers", "less than or equal to 256"),
    "no worker": (CONF, "9000", "1\nworkers = 0", "listen.workers", "greater than or equal to 1"),
    "negative drain": (CONF, "9000", "1\ndrain_timeout_s = -1", "listen.drain_timeout_s", "equal to 0"),
    "no certificate": (
        CONF,
        "9000",
        '1\ntls_certificate = "x.pem"',
        "listen.tls_certificate",
        "no such file",
    ),
    "odd certificate": (
        CONF,
        "9000",
        f'1\ntls_certificate = "{CONF}"',
        "listen.tls_certificate",
        "not a PEM file",
    ),
    "unknown backend": (CONF, "", '[state]\nbackend = "mysql"\n', "state.backend", "'sqlite' or 'redis'"),
    "redis_url": (
        CONF,
        "",
        '[state]\nredis_url = "http://x"\n',
        "state.redis_url",
        "must begin with redis://",
    ),
    "extra policies": (
        CONF,
        "",
        '[policies]\nextra = ["x.py"]\n',
        "policies.extra[0]",
        'without ".py"',
    ),
    "extra that is no list": (CONF, "", '[policies]\nextra = "x"\n', "policies.extra", "must be an array"),
    "no timeout": (CONF, "", "[upstream]\nidle_timeout_s = 0\n", "upstream.idle_timeout_s", "greater than 0"),
    "negative timeout": (
        CONF,
        "",
        "[upstream]\nconnect_timeout_s = -5\n",
        "upstream.connect_timeout_s",
        "than 0",
    ),
    "endless timeout": (CONF, "", "[upstream]\nidle_timeout_s = inf\n", "upstream.idle_timeout_s", "finite"),
    "a body that no workspace may hold": (
        CONF,
        "",
        "[limits]\nmax_request_bytes = 134217729\n",
        "limits.max_request_bytes",
        "less than or equal to 134217728",
    ),
    "no body": (CONF, "", "[limits]\nmax_request_bytes = 0\n", "limits.max_request_bytes", "equal to 1"),
    "no requests": (CONF, "", "[limits]\npro_rpm = 0\n", "limits.pro_rpm", "equal to 1"),
    "float markup": (CONF, '"4"', "4.0", "billing.markup_percent", 'must be a string such as "4"'),
    "negative markup": (CONF, '"4"', '"-4"', "billing.markup_percent", "must be a percentage"),
    "markup of words": (CONF, '"4"', '"NaN"', "billing.markup_percent", "must be a percentage"),
    "sandbox of words": (
        CONF,
        "",
        '[sandbox]\nenabled = "yes"\n',
        "sandbox.enabled",
        'true, false or "auto"',
    ),
    "sandbox of numbers": (CONF, "", "[sandbox]\nenabled = 1\n", "sandbox.enabled", 'true, false or "auto"'),
    "empty path": (CONF, "", '[paths]\ncatalog = ""\n', "paths.catalog", "must be a path"),
    "path of numbers": (CONF, "", "[paths]\ncatalog = 3\n", "paths.catalog", "must be a path"),
    "TOML syntax": (CONF, "port = 9000", "port 9000", "", "line 2"),
    "TOML key twice": (CONF, "port = 9000", "port = 9000\nport = 1", "", "line 3"),
    "number without end": (CONF, "9000", "9" * 5000, "", "is not TOML"),
    "arrays without end": (CONF, "9000", "[" * 100_000, "", "nested too deeply"),
    # providers.toml
    "provider in lower case": (PROVIDERS, "[OPENAI]", "[openai]", "openai", "must be an upper-case name"),
    "unknown dialect": (
        PROVIDERS,
        '"openai"',
        '"opanai"',
        "OPENAI.dialect",
        "'openai', 'anthropic' or 'gemini'",
    ),
    "no base_url": (PROVIDERS, f"base_url = {URL}\n", "", "OPENAI.base_url", "is required"),
    "no platform_key": (
        PROVIDERS,
        f"platform_key = {OPENAI_KEY}\n",
        "",
        "OPENAI.platform_key",
        "is required",
    ),
    "no dialect": (PROVIDERS, 'dialect = "openai"\n', "", "OPENAI.dialect", "is required"),
    "other scheme": (PROVIDERS, URL, '"ftp://x/v1"', "OPENAI.base_url", "must begin with https://"),
    "no scheme": (PROVIDERS, URL, '"api.openai.com/v1"', "OPENAI.base_url", "must begin with https://"),
    "no host": (PROVIDERS, URL, '"https:///v1"', "OPENAI.base_url", "must name a host"),
    "URL with space": (PROVIDERS, URL, '"https://a b/v1"', "OPENAI.base_url", "without spaces"),
    "URL with port": (PROVIDERS, URL, '"https://a:99999/v1"', "OPENAI.base_url", "is not a URL"),
    "URL with password": (PROVIDERS, URL, f'"https://u:{SECRET}@a/v1"', "OPENAI.base_url", "credentials"),
    "URL with query": (PROVIDERS, URL, f'"https://a/v1?key={SECRET}"', "OPENAI.base_url", "a query"),
    "URL with fragment": (PROVIDERS, URL, '"https://a/v1#x"', "OPENAI.base_url", "a fragment"),
    "bare key": (
        PROVIDERS,
        OPENAI_KEY,
        f'"{SECRET}"',
        "OPENAI.platform_key",
        "a bare secret is not accepted",
    ),
    "bare key as name": (PROVIDERS, OPENAI_KEY, f'"env:{SECRET}"', "OPENAI.platform_key", "must be env:NAME"),
    "sealed key": (
        PROVIDERS,
        OPENAI_KEY,
        f'"sealed:{SECRET}"',
        "OPENAI.platform_key",
        "is not a whole token",
    ),
    "missing key file": (PROVIDERS, OPENAI_KEY, f'"file:{SECRET}"', "OPENAI.platform_key", "can't be read"),
    "key file of two words": (
        PROVIDERS,
        OPENAI_KEY,
        '"file:models.toml"',
        "OPENAI.platform_key",
        "not one word",
    ),
    "empty key file": (PROVIDERS, OPENAI_KEY, '"file:/dev/null"', "OPENAI.platform_key", "is empty"),
    "key in the wrong place": (PROVIDERS, OPENAI_KEY, f'3\nkey = "{SECRET}"', "OPENAI.key", "unknown key"),
    "builtin with URL": (
        PROVIDERS,
        "builtin = true",
        f"builtin = true\nbase_url = {URL}",
        "SANDBOX.base_url",
        "by the",
    ),
    "builtin with keys": (
        PROVIDERS,
        "builtin = true",
        'builtin = true\nplatform_keys = ["env:A"]',
        "SANDBOX.platform_keys",
        "by the",
    ),
    # families.toml
    "unknown family key": (FAMILIES, "stop_limit", "stop_limits", "reasoning.stop_limits", '"stop_limit"?'),
    "unknown cap field": (FAMILIES, '"max_completion_tokens"', '"max"', "reasoning.cap_field", "max_tokens"),
    "range of one": (FAMILIES, "[0, 1.5]", "[0]", "reasoning.clamps.presence_penalty[1]", "is required"),
    "range upside down": (
        FAMILIES,
        "[0, 1.5]",
        "[2, 1]",
        "reasoning.clamps.presence_penalty",
        "[lowest, highest]",
    ),
    "range of words": (
        FAMILIES,
        "[0, 1.5]",
        '[0, "1"]',
        "reasoning.clamps.presence_penalty[1]",
        "valid number",
    ),
    "family that drops messages": (FAMILIES, '"top_p"', '"messages"', "reasoning", "may not drop"),
    "drops of numbers": (FAMILIES, '"top_p"', "3", "reasoning.drops", "must be an array of strings"),
    "stop limit of none": (
        FAMILIES,
        "stop_limit = 4",
        "stop_limit = 0",
        "reasoning.stop_limit",
        "equal to 1",
    ),
    # models.toml
    "unknown provider": (MODELS, '"GROQ"', '"GROK"', '"openai/gpt-oss-20b".provider', 'did you mean "GROQ"?'),
    "provider in small": (MODELS, '"OPENAI"', '"openai"', "gpt-4o-mini.provider", 'did you mean "OPENAI"?'),
    "unknown family": (
        MODELS,
        '"chat"',
        '"chatt"',
        "gpt-4o-mini.family",
        'unknown family "chatt"; did you mean "chat"?',
    ),
    "slug with a space": (MODELS, '["gpt-4o-mini"]', '["gpt 4o"]', '"gpt 4o"', "must be a slug"),
    "seven digits": (MODELS, PRICE, '"0.1234567"', "gpt-4o-mini.input_price_per_m", "7 fractional digits"),
    "float price": (
        MODELS,
        PRICE,
        "0.15",
        "gpt-4o-mini.input_price_per_m",
        'must be a string such as "0.15"',
    ),
    "negative price": (MODELS, PRICE, '"-1"', "gpt-4o-mini.input_price_per_m", "negative"),
    "price of words": (MODELS, PRICE, '"cheap"', "gpt-4o-mini.input_price_per_m", "plain decimal"),
    "no price": (
        MODELS,
        f"input_price_per_m = {PRICE}\n",
        "",
        "gpt-4o-mini.input_price_per_m",
        "is required",
    ),
    "no maximum": (MODELS, "16384", "0", "gpt-4o-mini.max_completion_tokens", "equal to 1"),
    "float maximum": (MODELS, "16384", "16384.0", "gpt-4o-mini.max_completion_tokens", "valid integer"),
    "active of numbers": (MODELS, "16384", "1\nactive = 1", "gpt-4o-mini.active", "valid boolean"),
    # workspaces
    "no name": (ACME, 'name = "Acme"\n', "", "name", "is required"),
    "unknown plan": (ACME, '"pro"', '"gold"', "plan", "'standard' or 'pro'"),
    "unknown workspace key": (ACME, PLAN, plan_and("rpm_overide = 6"), "rpm_overide", '"rpm_override"?'),
    "no rpm": (ACME, PLAN, plan_and("rpm_override = 0"), "rpm_override", "equal to 1"),
    "float cap": (
        ACME,
        PLAN,
        plan_and("monthly_spend_cap_usd = 2.5"),
        "monthly_spend_cap_usd",
        "must be a string",
    ),
    "negative cap": (
        ACME,
        PLAN,
        plan_and('monthly_spend_cap_usd = "-1"'),
        "monthly_spend_cap_usd",
        "negative",
    ),
    "unknown default": (
        ACME,
        '"gpt-4o-mini"',
        '"gpt-4o-mni"',
        "default_model",
        'did you mean "gpt-4o-mini"?',
    ),
    "unknown fallback": (
        ACME,
        PLAN,
        plan_and('fallback_model = "claude"'),
        "fallback_model",
        'model "claude"',
    ),
    "hash without scheme": (ACME, "sha256:", "", "keys[0].hash", "64 lower-case hex digits"),
    "the key for its hash": (
        ACME,
        f"sha256:{HASH_A}",
        f"tg_{SECRET}",
        "keys[0].hash",
        "64 lower-case hex digits",
    ),
    "id of two words": (ACME, '"ci"', '"c i"', "keys[0].id", "must be at most 64 letters, digits"),
    "slugs alike but for case": (
        MODELS,
        '["openai/gpt-oss-20b"]',
        '["GPT-4o-mini"]',
        "GPT-4o-mini",
        'differs from "gpt-4o-mini" in case only',
    ),
    "id twice": (ACME, '"laptop"', '"ci"', "keys[1].id", '"ci" is used twice'),
    "hash twice": (ACME, "c" * 64, HASH_A, "keys[1].hash", 'key "ci" of workspace "acme"'),
    "hash in two workspaces": (BETA, HASH_B, HASH_A, "keys[0].hash", 'key "ci" of workspace "acme"'),
    "unknown key of a key": (ACME, "active = true", "actve = true", "keys[0].actve", '"active"?'),
    "unknown reset": (
        ACME,
        "active = true",
        'spend_reset = "yearly"',
        "keys[0].spend_reset",
        "'never', 'daily'",
    ),
    "request cap of none": (ACME, "active = true", "request_cap = 0", "keys[0].request_cap", "equal to 1"),
    "keys that are a table": (BETA, "[[keys]]", "[keys]", "keys", "must be an array"),
    "bare customer key": (
        ACME,
        "",
        f'[byok.GROQ]\nsecret = "{SECRET}"\n',
        "byok.GROQ.secret",
        "a bare secret",
    ),
    "customer key as table": (ACME, "", f'[byok]\nGROQ = "{SECRET}"\n', "byok.GROQ", "must be a table"),
    "byok of nobody": (
        ACME,
        "",
        '[byok.GROK]\nsecret = "env:X"\n',
        "byok.GROK",
        'unknown provider "GROK"; did',
    ),
    "byok of the built-in provider": (
        ACME,
        "",
        '[byok.SANDBOX]\nsecret = "env:X"\n',
        "byok.SANDBOX",
        "the provider takes no key",
    ),
    "rule without words": (
        ACME,
        "",
        '[[rules]]\nkeywords = []\nmodel = "x"\n',
        "rules[0].keywords",
        "at least 1",
    ),
    "rule to nowhere": (
        ACME,
        "",
        '[[rules]]\nkeywords = ["a"]\nmodel = "x"\n',
        "rules[0].model",
        'unknown model "x"',
    ),
    "unknown heuristic": (
        ACME,
        "",
        '[[heuristics]]\nwhen = "x"\nmodel = "x"\n',
        "heuristics[0].when",
        "'images'",
    ),
    "heuristic to nowhere": (
        ACME,
        "",
        '[[heuristics]]\nwhen = "json"\nmodel = "x"\n',
        "heuristics[0].model",
        "unknown",
    ),
    "no threshold": (
        ACME,
        "",
        '[[heuristics]]\nwhen = "prompt_tokens_above"\nmodel = "x"\n',
        "heuristics[0].threshold_tokens",
        "is required",
    ),
    "threshold of nothing": (
        ACME,
        "",
        '[[heuristics]]\nwhen = "json"\nthreshold_tokens = 1\nmodel = "x"\n',
        "heuristics[0].threshold_tokens",
        "is only for prompt_tokens_above",
    ),
}


@pytest.mark.parametrize("case", EDITS)
def test_a_wrong_edit_is_refused_by_file_key_and_reason(tmp_path: Path, case: str) -> None:
    name, old, new, key, fragment = EDITS[case]
    conf_file = write_files(tmp_path)
    load_settings(conf_file, {})
    edit(tmp_path / name, old, new)
    with pytest.raises(SettingsError) as caught:
        load_settings(conf_file, {})
    assert (caught.value.file, caught.value.key) == (tmp_path / name, key)
    assert fragment in caught.value.reason
    line = str(caught.value)
    assert line == ": ".join(part for part in (str(tmp_path / name), key, caught.value.reason) if part)
    assert "\n" not in line
    assert SECRET not in line


@pytest.mark.parametrize("name", [CONF, PROVIDERS, FAMILIES, MODELS])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    conf_file = write_files(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(SettingsError, match=f"{name}: no such file$"):
        load_settings(conf_file, {})


@pytest.mark.parametrize("name", [CONF, PROVIDERS, FAMILIES, MODELS, ACME])
def test_a_file_that_is_not_utf8_is_named_with_the_byte(tmp_path: Path, name: str) -> None:
    conf_file = write_files(tmp_path)
    (tmp_path / name).write_bytes(b"# caf\xe9\n" + (tmp_path / name).read_bytes())
    with pytest.raises(SettingsError, match=f"{name}: is not UTF-8 at byte 5$"):
        load_settings(conf_file, {})


def test_a_folder_where_a_file_should_be_is_named(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    (tmp_path / "policies/workspaces/folder.toml").mkdir()
    with pytest.raises(SettingsError, match=r"folder\.toml: is a directory$"):
        load_settings(conf_file, {})


@pytest.mark.parametrize(("key", "file"), [("workspaces", "no"), ("catalog", "no/families.toml")])
def test_a_missing_folder_is_named(tmp_path: Path, key: str, file: str) -> None:
    conf_file = write_files(tmp_path)
    edit(conf_file, "", f'[paths]\n{key} = "no"\n')
    with pytest.raises(SettingsError, match="no such") as caught:
        load_settings(conf_file, {})
    assert caught.value.file == tmp_path / file


def test_a_workspace_file_needs_a_name_fit_for_an_id(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    (tmp_path / BETA).rename(tmp_path / "policies/workspaces/be ta.toml")
    with pytest.raises(
        SettingsError, match="the file's name is the workspace's id; it must be at most 64 letters"
    ):
        load_settings(conf_file, {})


def test_an_environment_variable_that_can_not_be_a_secret_is_refused_unseen(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    with pytest.raises(SettingsError, match=r"GROQ\.platform_key: the secret is not one word") as caught:
        load_settings(conf_file, {"GROQ_KEY": f"{SECRET}\r\nX-Injected: 1"})
    assert SECRET not in str(caught.value)


def test_a_sandbox_that_is_wanted_needs_a_builtin_provider(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    edit(conf_file, "", "[sandbox]\nenabled = true\n")
    edit(tmp_path / PROVIDERS, "builtin = true", f'base_url = {URL}\nplatform_key = "env:X"')
    with pytest.raises(SettingsError, match=r"sandbox\.enabled: providers\.toml names no builtin provider"):
        load_settings(conf_file, {})


def test_a_certificate_must_come_with_its_own_key(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    edit(conf_file, "9000", '1\ntls_certificate = "tls.pem"')
    authority = trustme.CA()
    good, other = authority.issue_cert("localhost"), authority.issue_cert("localhost")
    good.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "tls.pem"))
    assert load_settings(conf_file, {}).conf.listen.tls_certificate == tmp_path / "tls.pem"
    mixed = other.private_key_pem.bytes() + good.cert_chain_pems[0].bytes()
    (tmp_path / "tls.pem").write_bytes(mixed)
    with pytest.raises(
        SettingsError, match=r"listen\.tls_certificate: .*tls\.pem: is not a PEM file with a cert"
    ):
        load_settings(conf_file, {})
