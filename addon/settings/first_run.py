"""The first run: a gateway without a workspace gets one with a random key and a wallet, so that it answers at once.

A gateway without a master key gets one, so that secrets can be typed into the console.

The wallet is credited before the file is written, under a reference that the ledger accepts only once. So when a
process dies in between, the next first run writes the file. Deleting the workspace does not lead to a second credit.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from addon.runtime.atomic_files import write_atomically
from addon.runtime.folder_lock import locked
from addon.settings.api_keys import hash_key, make_key
from addon.settings.sealed_secrets import make_master_key
from addon.settings.secrets import KEY_FILE_VARIABLE, KEY_VARIABLE
from addon.settings.settings import Settings
from addon.settings.sources import Sources
from policies.model import Model

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


def find_demo_model(models: Iterable[Model]) -> Model | None:
    """Return the model for first calls: one of the built-in provider, else the cheapest that platform keys serve."""
    served = [one for one in models if one.active and one.serves == "chat" and not one.needs_own_key]
    return min(served, key=lambda one: (not one.provider.builtin, _price(one)), default=None)


def _price(model: Model) -> int:
    return model.retail.input_microusd_per_mtok + model.retail.output_microusd_per_mtok


def create_demo_workspace(folder: Path, default_model: str) -> str | None:
    """Write ``demo.toml`` (mode 0600) into a workspaces folder that has no ``*.toml``.

    Return its key, which is not stored, or None when there is a workspace already. Raises ``OSError``.
    """
    with locked(folder):
        if Sources().list_toml(folder):
            return None
        key = make_key()
        write_atomically(folder / f"{DEMO}.toml", _DEMO.format(model=default_model, hash=hash_key(key)))
    return key


def needs_master_key(settings: Settings, env: Mapping[str, str]) -> bool:
    """Return whether a gateway gets a master key.

    It has none, and nothing is sealed with one: else the file of the key is lost, and all that it sealed would be
    too. Machines that share their state may share their files, so there a person must give all the same key.
    """
    password = settings.console_password
    is_set = any(env.get(name, "").strip() for name in (KEY_VARIABLE, KEY_FILE_VARIABLE))
    is_read = not settings.problems and not (password and password.fault)
    return settings.conf.state.backend == "sqlite" and not is_set and is_read


def create_master_key(file: Path) -> bool:
    """Write a new master key into ``file`` (mode 0600), unless there is one. Return whether it did. Raises OSError."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(file.parent):
        if file.exists():
            return False
        write_atomically(file, f"{make_master_key()}\n")
    return True
