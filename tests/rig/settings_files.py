"""A small valid set of an operator's files on disk, for tests that edit it."""

from pathlib import Path

import pytest

from addon.settings.errors import SettingsError
from addon.settings.settings import load_settings

CONF = "proxy.conf"
PROVIDERS = "catalog_data/providers.toml"
FAMILIES = "catalog_data/families.toml"
MODELS = "catalog_data/models.toml"
ACME = "policies/workspaces/acme.toml"
BETA = "policies/workspaces/beta.toml"

SECRET = "sk-obviously-fake-secret"
HASH_A = "a" * 64
HASH_B = "b" * 64

FILES = {
    "proxy.conf": """\
[listen]
port = 9000

[billing]
markup_percent = "4"
""",
    "catalog_data/providers.toml": """\
[OPENAI]
base_url = "https://api.openai.com/v1/"
dialect = "openai"
platform_key = "env:OPENAI_KEY"

[GROQ]
base_url = "http://127.0.0.1:9999"
dialect = "openai"
platform_key = "env:GROQ_KEY"

[SANDBOX]
dialect = "openai"
builtin = true
""",
    "catalog_data/families.toml": """\
[chat]

[reasoning]
cap_field = "max_completion_tokens"
drops = ["temperature", "top_p"]
clamps = { presence_penalty = [0, 1.5] }
renames = { seed = "random_seed" }
extra = ["reasoning_effort"]
stop_limit = 4
n_limit = 1
asks_stream_usage = false
reasoning_beside_completion = true
uncapped_completion_tokens = 300
reasons_unseen = true
tokens_per_s = 80
""",
    "catalog_data/models.toml": """\
["gpt-4o-mini"]
provider = "OPENAI"
upstream_model_id = "gpt-4o-mini-2024"
family = "chat"
input_price_per_m = "0.15"
output_price_per_m = "0.6"
cached_input_price_per_m = "0.075"
max_completion_tokens = 16384

["openai/gpt-oss-20b"]
provider = "GROQ"
upstream_model_id = "gpt-oss-20b"
family = "reasoning"
input_price_per_m = "1"
output_price_per_m = "2"
max_completion_tokens = 100
byok_only = true

["sandbox-chat"]
provider = "SANDBOX"
upstream_model_id = "chat"
family = "chat"
input_price_per_m = "1"
output_price_per_m = "2"
max_completion_tokens = 100
""",
    "policies/workspaces/acme.toml": f"""\
name = "Acme"
plan = "pro"
default_model = "gpt-4o-mini"

# The build server's.
[[keys]]
id = "ci"
hash = "sha256:{HASH_A}"   # made in May
active = true

[[keys]]
id = "laptop"
hash = "sha256:{"c" * 64}"
active = false
""",
    "policies/workspaces/beta.toml": f"""\
name = "Beta"

[[keys]]
id = "ci"
hash = "sha256:{HASH_B}"
""",
}


def write_files(folder: Path) -> Path:
    """Write the set under ``folder``; return the path of its proxy.conf."""
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder / "proxy.conf"


def edit(file: Path, old: str, new: str) -> None:
    """Replace the first ``old`` in a file, which must be there, in one step. For "" append ``new``."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    replace(file, text.replace(old, new, 1) if old else text + new)


def replace(file: Path, text: str) -> None:
    """Replace a file as careful editors do: write a new file, then rename it."""
    new = file.with_name(f".{file.name}.new")
    new.write_text(text, encoding="utf-8")
    new.rename(file)


def contents(folder: Path) -> dict[Path, bytes]:
    """Return the content of each file under ``folder``."""
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def assert_refused(folder: Path, name: str, old: str, new: str, key: str, reason: str) -> None:
    """Assert that this edit is refused in one line: file, ``key`` and a reason that contains ``reason``.

    The line must not show ``SECRET``.
    """
    conf_file = write_files(folder)
    load_settings(conf_file, {})
    edit(folder / name, old, new)
    with pytest.raises(SettingsError) as caught:
        load_settings(conf_file, {})
    assert (caught.value.file, caught.value.key) == (folder / name, key)
    assert reason in caught.value.reason
    line = str(caught.value)
    assert line == ": ".join(part for part in (str(folder / name), key, caught.value.reason) if part)
    assert "\n" not in line
    assert SECRET not in line
