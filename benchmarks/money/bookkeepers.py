"""The gateways that record a cost for each call, each with the prices that it comes with."""

import contextlib
import shutil
import sqlite3
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from benchmarks import gateways
from benchmarks.gateways import ROOT, Setup
from benchmarks.money.price_list import CLAUDE, GPT
from benchmarks.peers import litellm, otari
from benchmarks.peers.installation import LITELLM, python_package
from benchmarks.traffic import Target

NANOUSD: Final = 10**9
_SAME_NAMES: Final[Mapping[str, str]] = MappingProxyType({GPT: GPT, CLAUDE: CLAUDE})


class Booked(NamedTuple):
    """How many calls a gateway recorded, and their cost."""

    calls: int
    nanousd: int


class Bookkeeper(Protocol):
    """A gateway with records."""

    @property
    def name(self) -> str:
        """Its name in the table."""

    @property
    def models(self) -> Mapping[str, str]:
        """Its names of models, by those of the vendors."""

    def running(self) -> AbstractContextManager[Target]:
        """Start it."""

    def booked(self) -> Booked:
        """Read its records."""


class Tollgate:
    """This gateway with the shipped catalog, in which only the vendors' addresses and keys are others."""

    name = "tollgate"
    models = _SAME_NAMES

    def __init__(self, vendor_port: int, folder: Path) -> None:
        self._files = gateways.configure(vendor_port, folder, Setup(money=gateways.Money(markup_percent="0")))
        shipped, catalog = ROOT / "catalog_data", folder / "catalog_data"
        for name in ("models.toml", "families.toml"):
            shutil.copyfile(shipped / name, catalog / name)
        text = (shipped / "providers.toml").read_text(encoding="utf-8")
        providers = tomllib.loads(text)
        for name in ("OPENAI", "ANTHROPIC"):
            text = text.replace(providers[name]["base_url"], f"http://127.0.0.1:{vendor_port}/v1", 1)
            text = text.replace(providers[name]["platform_key"], "env:BENCH_PROVIDER_KEY", 1)
        (catalog / "providers.toml").write_text(text, encoding="utf-8")

    def running(self) -> AbstractContextManager[Target]:
        """Start it."""
        return self._files.running()

    def booked(self) -> Booked:
        """Read its ledger."""
        return _read(self._files.ledger, "SELECT count(*), sum(wholesale_nanousd) FROM usage")


class LiteLLM:
    """LiteLLM with the prices that are in its package. Its callback gets what its spend log would have."""

    name = "LiteLLM"
    models = _SAME_NAMES

    def __init__(self, vendor_port: int, folder: Path) -> None:
        folder.mkdir()
        self._folder, self._program = folder, python_package(LITELLM, "litellm")
        origin = f"http://127.0.0.1:{vendor_port}"
        self._models = [
            _litellm_model(GPT, f"openai/{GPT}", f"{origin}/v1"),
            _litellm_model(CLAUDE, f"anthropic/{CLAUDE}", origin),
        ]

    @contextlib.contextmanager
    def running(self) -> Iterator[Target]:
        """Start it."""
        with litellm.serve(self._program, self._folder, self._models, keep_costs=True) as target:
            yield target

    def booked(self) -> Booked:
        """Read the costs that its callback kept."""
        costs = litellm.kept_costs_usd(self._folder)
        return Booked(len(costs), round(sum(costs) * NANOUSD))


def _litellm_model(name: str, model: str, api_base: str) -> dict[str, Any]:
    parameters = {"model": model, "api_base": api_base, "api_key": "fake-provider-key"}
    return {"model_name": name, "litellm_params": parameters}


class Otari:
    """Otari with the prices of genai-prices, which it takes where it has none of its own."""

    name = "Otari"
    models = MappingProxyType({GPT: f"openai:{GPT}", CLAUDE: f"anthropic:{CLAUDE}"})

    def __init__(self, program: Path, vendor_port: int, folder: Path) -> None:
        folder.mkdir()
        self._files = otari.configure(program, vendor_port, folder, None)

    @contextlib.contextmanager
    def running(self) -> Iterator[Target]:
        """Start it."""
        with self._files.running() as pid:
            key = self._files.new_key(1_000_000)
            yield Target(self.name, pid, self._files.port, key)

    def booked(self) -> Booked:
        """Read its usage log."""
        cost = f"sum(cost) * {NANOUSD}"
        return _read(
            self._files.database, f"SELECT count(*), {cost} FROM usage_logs WHERE status = 'success'"
        )


def _read(database: Path, query: str) -> Booked:
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=20)) as connection:
        calls, nanousd = connection.execute(query).fetchone()
    return Booked(int(calls), round(nanousd or 0))
