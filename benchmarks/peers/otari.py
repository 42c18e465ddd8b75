"""Otari on SQLite: a key of a user with a budget, a price, and a usage row for each call."""

import contextlib
import json
import secrets
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from benchmarks.processes import await_port, free_port, running
from benchmarks.traffic import SLUG, Target

FEATURES: Final = MappingProxyType(
    {
        "client keys": "yes",
        "rate limit": "of the user",
        "budget": "of the user; a reservation before each call",
        "usage record": "a row",
        "log line": "text",
        "metrics": "yes",
    }
)
START_LIMIT_S: Final = 120.0
USER: Final = "bench"
MODEL: Final = f"bench:{SLUG}"
_REQUEST_LIMIT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of the model, in USD for a million tokens."""

    input_usd: float = 0.15
    output_usd: float = 0.60


@dataclass(frozen=True, slots=True)
class Otari:
    """The files of one Otari. It may be started again on them."""

    program: Path
    folder: Path
    port: int
    master_key: str

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.folder / "otari.db"

    @contextlib.contextmanager
    def running(self) -> Iterator[int]:
        """Yield the process id of a server that listens."""
        command = [str(self.program), "serve", "--config", str(self.folder / "config.yml")]
        log = self.folder / "log"
        with running(command, log=log, home=self.folder) as process:
            await_port(process, self.port, START_LIMIT_S)
            yield process.pid

    def new_key(self, budget_usd: float) -> str:
        """Return the key of a new user with a budget."""
        budget = self._post("budgets", {"name": "bench", "max_budget": budget_usd})["budget_id"]
        self._post("users", {"user_id": USER, "budget_id": budget})
        return str(self._post("keys", {"key_name": "bench", "user_id": USER})["key"])

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.master_key}", "Content-Type": "application/json"}
        url = f"http://127.0.0.1:{self.port}/v1/{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=_REQUEST_LIMIT_S) as answer:
            return dict(json.load(answer))


def configure(program: Path, upstream_port: int, folder: Path, prices: Prices | None) -> Otari:
    """Write the files of an Otari in front of the upstream, without outbound calls of its own.

    Without ``prices`` it has two vendors under their own names, with the prices of its package.
    """
    otari = Otari(program, folder, free_port(), secrets.token_hex(16))
    origin = f"http://127.0.0.1:{upstream_port}"
    settings = {
        "database_url": f"sqlite:///{otari.database}",
        "host": "127.0.0.1",
        "port": otari.port,
        "master_key": otari.master_key,
        "bootstrap_api_key": False,
        "rate_limit_rpm": 100_000_000,
        "enable_metrics": True,
        "model_discovery": False,
        "models_dev_metadata": False,
        **(_named_vendors(origin) if prices is None else _priced_model(origin, prices)),
    }
    # JSON is YAML too.
    (folder / "config.yml").write_text(json.dumps(settings), encoding="utf-8")
    return otari


def _priced_model(origin: str, prices: Prices) -> dict[str, Any]:
    price = {"input_price_per_million": prices.input_usd, "output_price_per_million": prices.output_usd}
    return {"providers": {"bench": _provider("openai", f"{origin}/v1")}, "pricing": {MODEL: price}}


def _named_vendors(origin: str) -> dict[str, Any]:
    vendors = {"openai": _provider("openai", f"{origin}/v1"), "anthropic": _provider("anthropic", origin)}
    return {"providers": vendors, "default_pricing": True}


def _provider(kind: str, api_base: str) -> dict[str, str]:
    return {"provider_type": kind, "api_base": api_base, "api_key": "fake-provider-key"}


@contextlib.contextmanager
def serve(program: Path, upstream_port: int, folder: Path) -> Iterator[Target]:
    """Yield an Otari whose user has a budget of a million dollars."""
    otari = configure(program, upstream_port, folder, Prices())
    with otari.running() as pid:
        yield Target("", pid, otari.port, otari.new_key(1_000_000), model=MODEL)
