"""The servers of the peers, in front of the canned provider. Each has all on that needs no database server."""

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from benchmarks.light import probed_length
from benchmarks.peers import litellm, otari
from benchmarks.peers.installation import LITELLM, PORTKEY, NotInstalledError, node_package, python_package
from benchmarks.processes import await_port, free_port, running
from benchmarks.traffic import SLUG, UPSTREAM_MODEL_ID, Scenario, Target

START_LIMIT_S: Final = 120.0
FEATURES: Final = ("client keys", "rate limit", "budget", "usage record", "log line", "metrics")
LOOPBACK: Final = Path(__file__).with_name("listen_on_loopback.cjs")
_PROBE: Final = Scenario("whole", 1, 1)


@dataclass(frozen=True, slots=True)
class Peer:
    """Another gateway: its program, how to start it, and what of ``FEATURES`` is on."""

    name: str
    version: str
    find: Callable[[], Path]
    serve: Callable[[Path, int, Path], AbstractContextManager[Target]]
    features: Mapping[str, str]


@contextlib.contextmanager
def started(peer: Peer, upstream_port: int, folder: Path) -> Iterator[Target]:
    """Yield the peer after its first right answer."""
    program = peer.find()
    folder.mkdir()
    with peer.serve(program, upstream_port, folder) as target:
        probed_length(target, _PROBE)
        yield replace(target, name=peer.name)


def _litellm(program: Path, upstream_port: int, folder: Path) -> AbstractContextManager[Target]:
    model = {
        "model": f"openai/{UPSTREAM_MODEL_ID}",
        "api_base": f"http://127.0.0.1:{upstream_port}/v1",
        "api_key": "fake-provider-key",
        "input_cost_per_token": 0.15e-6,
        "output_cost_per_token": 0.60e-6,
    }
    return litellm.serve(program, folder, [{"model_name": SLUG, "litellm_params": model}])


@contextlib.contextmanager
def _portkey(modules: Path, upstream_port: int, folder: Path) -> Iterator[Target]:
    port = free_port()
    server = modules / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    command = [shutil.which("node") or "node", "--require", str(LOOPBACK), str(server), f"--port={port}"]
    headers = (
        "x-portkey-provider: openai",
        f"x-portkey-custom-host: http://127.0.0.1:{upstream_port}/v1",
    )
    production = {"NODE_ENV": "production"}
    with running(
        [*command, "--headless"], log=folder / "log", environment=production, home=folder
    ) as process:
        await_port(process, port, START_LIMIT_S)
        yield Target("", process.pid, port, "fake-provider-key", model=UPSTREAM_MODEL_ID, headers=headers)


def peers(otari_command: Path | None) -> list[Peer]:
    """Return the peers. Otari is not in a package registry, so ``otari_command`` is one that the user installed."""

    def find_otari() -> Path:
        if otari_command is None:
            raise NotInstalledError("it is in no package registry; install it and add --otari COMMAND")
        return otari_command

    return [
        Peer("LiteLLM", "1.106.0", lambda: python_package(LITELLM, "litellm"), _litellm, _LITELLM_FEATURES),
        Peer(
            "Portkey",
            "1.15.2",
            lambda: node_package("portkey-1.15.2", json.dumps(PORTKEY)),
            _portkey,
            _PORTKEY_FEATURES,
        ),
        Peer("Otari", "as installed", find_otari, otari.serve, otari.FEATURES),
    ]


TOLLGATE_FEATURES: Final = MappingProxyType(
    {
        "client keys": "yes",
        "rate limit": "of the workspace",
        "budget": "of the workspace and of the key; a hold before each call",
        "usage record": "a row, durable before the answer ends",
        "log line": "JSON",
        "metrics": "yes",
    }
)
_LITELLM_FEATURES: Final = MappingProxyType(
    {
        "client keys": "one master key; others need PostgreSQL",
        "rate limit": "no: one of the model is off by default",
        "budget": "no: needs PostgreSQL",
        "usage record": "no: needs PostgreSQL; the cost is in a header",
        "log line": "JSON",
        "metrics": "no",
    }
)
_PORTKEY_FEATURES: Final = MappingProxyType(
    {
        "client keys": "no: passes the provider's key",
        **dict.fromkeys(("rate limit", "budget", "usage record", "log line", "metrics"), "no"),
    }
)
STOCK_FEATURES: Final = MappingProxyType(dict.fromkeys(FEATURES, "no"))
