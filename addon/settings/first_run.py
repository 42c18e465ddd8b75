"""The first run: a gateway without any workspace gets one, with a random key and a wallet, so that it answers at once.

The wallet is credited first, under a reference that can be entered once only. So a process that dies in between has
lost nothing, the next first run makes the rest, and one that is provoked by deleting the workspace credits nothing.
"""

from pathlib import Path

from addon.runtime.atomic_files import write_atomically
from addon.runtime.folder_lock import locked
from addon.settings.api_keys import hash_key, new_key
from addon.settings.sources import Sources

DEMO = "demo"
WELCOME_NANOUSD = 5 * 10**9
WELCOME_REFERENCE = "first run"

_DEMO = """\
# Made by the first run. docs/configuration.md explains every key; `tollgate keys create` adds API keys.
name = "Demo"
plan = "standard"
overage_protection = true
default_model = "{model}"

[[keys]]
id = "demo"
hash = "sha256:{hash}"
active = true
"""


def ensure_workspace(folder: Path, default_model: str) -> str | None:
    """Write ``demo.toml`` (mode 0600) into a workspaces folder that has no ``*.toml``.

    Return its plain key, which nothing stores; None where a workspace stands already. Raises ``OSError``.
    """
    with locked(folder):
        if Sources().list_toml(folder):
            return None
        key = new_key()
        write_atomically(folder / f"{DEMO}.toml", _DEMO.format(model=default_model, hash=hash_key(key)))
    return key
