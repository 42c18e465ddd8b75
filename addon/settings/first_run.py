"""The first run: a gateway without a workspace gets one with a random key and a wallet, so that it answers at once.

The wallet is credited before the file is written, under a reference that the ledger accepts only once. So when a
process dies in between, the next first run writes the file. Deleting the workspace does not lead to a second credit.
"""

from collections.abc import Iterable
from pathlib import Path

from addon.runtime.atomic_files import write_atomically
from addon.runtime.folder_lock import locked
from addon.settings.api_keys import hash_key, make_key
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
    served = [one for one in models if one.active and not one.needs_own_key]
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
