"""A wrong value in the catalog's files is refused with the file, the key and the reason, and no secret is shown."""

from pathlib import Path

import pytest
from rig.settings_files import FAMILIES, MODELS, PROVIDERS, SECRET, assert_refused, edit, write_files

from addon.settings.errors import SettingsError
from addon.settings.settings import Settings, load_settings

URL = '"https://api.openai.com/v1/"'
OPENAI_KEY = '"env:OPENAI_KEY"'
PRICE = '"0.15"'
KEY_LINE = f"platform_key = {OPENAI_KEY}"
OPENAI = f'dialect = "openai"\n{KEY_LINE}'
THREE = 'platform_keys = ["env:ONE", "env:TWO", "env:THREE"]'


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    return write_files(tmp_path)


def load_edited(conf_file: Path, new: str, old: str = KEY_LINE) -> Settings:
    edit(conf_file.parent / PROVIDERS, old, new)
    return load_settings(conf_file, {})


# file, old passage ("" = the end), new passage, key, part of the reason
EDITS = {
    # families.toml
    "limit in quotes": (FAMILIES, "limit = 4", 'limit = "4"', "reasoning.stop_limit", "valid integer"),
    # providers.toml
    "provider in lower case": (PROVIDERS, "[OPENAI]", "[openai]", "openai", "must be an upper-case name"),
    "unknown dialect": (
        PROVIDERS,
        '"openai"',
        '"opanai"',
        "OPENAI.dialect",
        "'openai', 'anthropic', 'gemini' or 'bedrock'",
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
        "the gateway sets it",
    ),
    "builtin with keys": (
        PROVIDERS,
        "builtin = true",
        'builtin = true\nplatform_keys = ["env:A"]',
        "SANDBOX.platform_keys",
        "the gateway sets it",
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
    "provider, lower case": (
        MODELS,
        '"OPENAI"',
        '"openai"',
        "gpt-4o-mini.provider",
        'did you mean "OPENAI"?',
    ),
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
    "a window smaller than the maximum": (
        MODELS,
        "16384",
        "16384\ncontext_window = 16383",
        "gpt-4o-mini.context_window",
        "must be at least max_completion_tokens, which is 16384",
    ),
    "an unknown lack": (
        MODELS,
        "16384",
        '16384\nlacks = ["eyes"]',
        "gpt-4o-mini.lacks[0]",
        "images",
    ),
    "active of numbers": (MODELS, "16384", "1\nactive = 1", "gpt-4o-mini.active", "valid boolean"),
    "slugs alike but for case": (
        MODELS,
        '["openai/gpt-oss-20b"]',
        '["GPT-4o-mini"]',
        "GPT-4o-mini",
        'differs from "gpt-4o-mini" in case only',
    ),
}


@pytest.mark.parametrize("case", EDITS)
def test_a_wrong_edit_is_refused_with_file_key_and_reason(tmp_path: Path, case: str) -> None:
    assert_refused(tmp_path, *EDITS[case])


# what replaces the platform key, the wrong key, part of the reason
PROVIDER_EDITS = {
    "unknown auth": (f'{KEY_LINE}\nauth = "basic"', "OPENAI.auth", "'bearer', 'api-key'"),
    "a key without auth": (f'{KEY_LINE}\nauth = "none"', "OPENAI.platform_key", "must be absent"),
    "keys without auth": (f'{THREE}\nauth = "none"', "OPENAI.platform_keys", "must be absent"),
    "a key and keys": (f"{KEY_LINE}\n{THREE}", "OPENAI.platform_key", "must be absent when platform_keys is"),
    "no keys": ("platform_keys = []", "OPENAI.platform_keys", "must not be empty"),
    "keys that are no array": ('platform_keys = "env:ONE"', "OPENAI.platform_keys", "must be an array"),
    "a bare key": (f'platform_keys = ["env:ONE", "{SECRET}"]', "OPENAI.platform_keys[1]", "a bare secret"),
    "a key twice": ('platform_keys = ["env:A", "env:B", "env:A"]', "OPENAI.platform_keys[2]", "names the same"),
    "no such key file": (f'platform_keys = ["env:A", "file:{SECRET}"]', "OPENAI.platform_keys[1]", "can't be read"),
    "no key with auth": ('auth = "bearer"', "OPENAI.platform_key", "is required"),
    "a path without a slash": (f'{KEY_LINE}\nchat_path = "chat"', "OPENAI.chat_path", 'begins with "/"'),
    "a path of two lines": (f'{KEY_LINE}\nchat_path = "/a\\nb"', "OPENAI.chat_path", "printable ASCII"),
    "a fragment": (f'{KEY_LINE}\nchat_path = "/a#b"', "OPENAI.chat_path", "without a fragment"),
    "another placeholder": (f'{KEY_LINE}\nchat_path = "/{{id}}"', "OPENAI.chat_path", "no placeholder but {model}"),
    "no such family": (f'{KEY_LINE}\ncustom_family = "chatt"', "OPENAI.custom_family", 'unknown family "chatt"; did'),
    "a family without keys": ('auth = "none"\ncustom_family = "chat"', "OPENAI.custom_family", "customers' keys"),
    "half a placeholder": (f'{KEY_LINE}\nchat_path = "/{{model"', "OPENAI.chat_path", "must hold no placeholder"),
    "headers of numbers": (f"{KEY_LINE}\nheaders = {{ x-a = 1 }}", "OPENAI.headers.x-a", "valid string"),
    "two lines": (f'{KEY_LINE}\nheaders = {{ x-a = "{SECRET}\\r\\nx" }}', "OPENAI.headers.x-a", "a line"),
    "an empty header": (f'{KEY_LINE}\nheaders = {{ x-a = "" }}', "OPENAI.headers.x-a", "not empty"),
    "a header with capitals": (f'{KEY_LINE}\nheaders = {{ X-A = "b" }}', "OPENAI.headers.X-A", "lower case"),
    "a name with a space": (f'{KEY_LINE}\nheaders = {{ "x a" = "b" }}', 'OPENAI.headers."x a"', "name of a header"),
}  # fmt: skip


@pytest.mark.parametrize("case", PROVIDER_EDITS)
def test_a_wrong_provider_is_refused_with_the_key_and_the_reason(case: str, conf_file: Path) -> None:
    new, key, reason = PROVIDER_EDITS[case]
    with pytest.raises(SettingsError) as caught:
        load_edited(conf_file, new)
    assert caught.value.key == key
    assert reason in caught.value.reason
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["authorization", "api-key", "x-api-key", "x-goog-api-key", "cookie"])
def test_a_header_that_carries_a_secret_is_refused(conf_file: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=r"a secret belongs in platform_key") as caught:
        load_edited(conf_file, f'{KEY_LINE}\nheaders = {{ {name} = "{SECRET}" }}')
    assert caught.value.key == f"OPENAI.headers.{name}"
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["host", "content-length", "transfer-encoding", "connection", "content-type", "accept-encoding"]
)
def test_a_header_that_the_gateway_sets_itself_is_refused(conf_file: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=rf"OPENAI\.headers\.{name}: .*the gateway sets it itself"):
        load_edited(conf_file, f'{KEY_LINE}\nheaders = {{ {name} = "x" }}')


def test_a_path_is_only_for_the_openai_dialect(conf_file: Path) -> None:
    with pytest.raises(SettingsError, match=r"OPENAI\.chat_path: is only for the dialect openai"):
        load_edited(conf_file, OPENAI.replace("openai", "gemini") + '\nchat_path = "/x"', OPENAI)
