"""One small good set of an operator's files on disk, for the tests that edit it."""

from pathlib import Path

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
    """Replace one passage of a file at once; ``old`` must be there, and "" stands for the end."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    replace(file, text.replace(old, new, 1) if old else text + new)


def replace(file: Path, text: str) -> None:
    """Put a whole new file in the place of an old one, as editors do that write safely."""
    new = file.with_name(f".{file.name}.new")
    new.write_text(text, encoding="utf-8")
    new.rename(file)
