"""A fleet: gateways on addresses of their own, on one PostgreSQL and one Redis, with one provider that counts."""

import os
import signal
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import psycopg

from policies.money import parse_usd_nanousd
from rig.bounds import BOUND_S
from rig.commands import tollgate
from rig.configuration import TOLLGATE, Configuration, model, new_key, provider, workspace
from rig.fleet_load import Load
from rig.gateway import Gateway
from rig.load import as_dear_as_allowed
from rig.postgres_server import PostgresServer
from rig.postgres_template import ROLE
from rig.redis_server import RedisServer
from rig.scripts import Gate, Received, Script
from rig.server_process import free_port
from rig.tcp_links import TcpLink, TcpLinks
from rig.upstream import Upstream

SIZE = 4
NAME = "fleet-of-the-test"
MODEL = "dear"
MODELS = {
    MODEL: model(input_price_per_m="10", output_price_per_m="30", max_completion_tokens=2_000),
}
PROMPT_NANOUSD, COMPLETION_NANOUSD = 10_000, 30_000
"""The price of one token, without a markup."""

WALLETS_USD: Mapping[str, str] = {"wallet-a": "0.5", "wallet-b": "1.5", "wallet-c": "4"}
MONTHS_USD: Mapping[str, str] = {"month-a": "1", "month-b": "3"}
KEYS_USD: Mapping[str, str] = {"key-a": "2"}
BUDGETS_USD: Mapping[str, str] = {**WALLETS_USD, **MONTHS_USD, **KEYS_USD}
"""What each of these workspaces may spend. All have overage protection."""
WIDE = ("wide-a", "wide-b", "wide-c", "wide-d")
"""Workspaces without a budget, which are always served."""
RATED = "rated"
RPM = 60

IN_FLIGHT = 3
"""How many calls the provider keeps waiting, until later ones come."""
LEASE_S = 6.0


_INTERRUPTED = "SELECT count(*) FROM usage WHERE end_user = ANY(%s) AND error_code = 'interrupted'"


class HasUrl(Protocol):
    """A Redis alone, behind Sentinels, or a cluster."""

    url: str


def gateway_program(*, lease_s: float = LEASE_S, clock_off_s: float = 0.0) -> tuple[str, str]:
    """Return a program: ``tollgate`` with shorter leases, and a machine whose clock is off."""
    code = (
        "from datetime import UTC, datetime, timedelta\n"
        "from addon.runtime.clock import SystemClock\n"
        "from addon.store.money.postgres import leases\n"
        f"leases.LEASE_S, leases.RENEW_S = {lease_s}, {lease_s / 6}\n"
        f"off = timedelta(seconds={clock_off_s})\n"
        "if off:\n"
        "    SystemClock.now = staticmethod(lambda: datetime.now(UTC) + off)\n"
        f"{TOLLGATE[1]}"
    )
    return "-c", code


class CountingProvider:
    """Answers each call as dear as it may be. The last ``IN_FLIGHT`` wait for later ones, until ``release``."""

    def __init__(self) -> None:
        self._waiting: deque[Gate] = deque()
        self._waits = False

    def __call__(self, request: Received) -> Script:
        answer = as_dear_as_allowed(request)
        if not self._waits:
            return answer
        gate = Gate()
        self._waiting.append(gate)
        if len(self._waiting) > IN_FLIGHT:
            self._waiting.popleft().open()
        return (gate, *answer)

    def keep_waiting(self) -> None:
        self._waits = True

    def release(self) -> None:
        """Let all calls that wait have their answers, and later ones at once."""
        self._waits = False
        while self._waiting:
            self._waiting.popleft().open()


class Fleet:
    """``gateways`` that share ``postgres`` and ``redis``. Each reaches PostgreSQL over a link of its own.

    So it does a Redis that is alone. A gateway has an address, a folder and files of its own, as on another machine.
    """

    def __init__(
        self,
        folder: Path,
        postgres: PostgresServer,
        redis: HasUrl,
        *,
        size: int = SIZE,
        programs: Sequence[Sequence[str]] = (),
    ) -> None:
        self.folder = folder
        self.postgres = postgres
        self.redis = redis
        self.gateways: list[Gateway] = []
        self.provider = CountingProvider()
        self.upstream = Upstream()
        self.keys = {name: new_key() for name in (*WIDE, *BUDGETS_USD, RATED)}
        self.budgets_nanousd = {name: parse_usd_nanousd(usd) for name, usd in BUDGETS_USD.items()}
        """What each workspace with a budget may spend. ``top_up`` raises those of wallets."""
        self.postgres_links: list[TcpLink] = []
        self.redis_links: list[TcpLink] = []
        self._size = size
        self._programs = programs or [gateway_program()] * size
        self._ports = [free_port() for _ in range(size)]
        self._running = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._running.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.provider.release()
        for gateway in self.gateways:
            if gateway.is_running:
                gateway.terminate()
        for gateway in self.gateways:
            gateway.__exit__(kind, error, at)
        self._running.close()

    def _start(self) -> None:
        self._running.enter_context(self.upstream)
        self.upstream.behave(self.provider)
        links = self._running.enter_context(TcpLinks())
        self.postgres_links = [links.link(self.postgres.port) for _ in range(self._size)]
        if isinstance(self.redis, RedisServer):
            self.redis_links = [links.link(self.redis.port) for _ in range(self._size)]
        for number in range(self._size):
            self.gateways.append(self._started(number))
        for name, usd in WALLETS_USD.items():
            self.command("wallet", "credit", name, usd)

    def top_up(self) -> None:
        """Put as much into each wallet again as was there first, so that some are nearly empty in the next load."""
        for name, usd in WALLETS_USD.items():
            self.command("wallet", "credit", name, usd)
            self.budgets_nanousd[name] += parse_usd_nanousd(usd)

    def _started(self, number: int) -> Gateway:
        folder = self.folder / f"machine-{number}"
        folder.mkdir(exist_ok=True)
        url = self.postgres.url_of(ROLE).replace(
            f":{self.postgres.port}/", f":{self.postgres_links[number].port}/"
        )
        (folder / "ledger.url").write_text(url)
        (folder / "redis.url").write_text(self._redis_url(number))
        return Gateway(self._configuration(number), folder, self.keys).__enter__()

    def _redis_url(self, number: int) -> str:
        if isinstance(self.redis, RedisServer):
            return self.redis.url.replace(f":{self.redis.port}/", f":{self.redis_links[number].port}/")
        return self.redis.url

    def _configuration(self, number: int) -> Configuration:
        host = f"127.0.0.{2 + number}"
        return Configuration(
            providers={"TESTER": provider(self.upstream.base_url)},
            models=MODELS,
            workspaces=self._workspaces(),
            sections={
                "listen": {"host": host},
                "admin": {"host": host, "port": 0},
                "state": {"backend": "redis", "redis_url": "file:redis.url", "fleet": NAME},
                "ledger": {"url": "file:ledger.url"},
                "billing": {"markup_percent": "0"},
            },
            program=self._programs[number],
            arguments=("--port", str(self._ports[number])),
        )

    def _workspaces(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, key in self.keys.items():
            changes: dict[str, Any] = {"name": name, "overage_protection": True}
            if name in WALLETS_USD:
                changes["plan"] = "standard"
            elif name in MONTHS_USD:
                changes["monthly_spend_cap_usd"] = MONTHS_USD[name]
            elif name == RATED:
                changes["rpm_override"] = RPM
            made[name] = workspace(("ci", key, True), **changes)
            if name in KEYS_USD:
                made[name]["keys"][0] |= {"spend_cap_usd": KEYS_USD[name], "spend_reset": "monthly"}
        return made

    def command(self, *arguments: str, machine: int = 0) -> str:
        """Run ``tollgate ARGUMENTS`` on one of the machines, which must succeed. Return its output."""
        done = tollgate(self.folder / f"machine-{machine}", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def load(self) -> Iterator[Load]:
        """Let clients call all gateways until the block ends. Some calls are always in flight."""
        self.provider.keep_waiting()
        urls = [f"http://127.0.0.{2 + number}:{port}" for number, port in enumerate(self._ports)]
        try:
            with Load(urls, self.keys, MODEL) as load:
                try:
                    yield load
                finally:
                    self.provider.release()
        finally:
            self.provider.release()

    def kill(self, number: int) -> None:
        """Kill all processes of a gateway at once."""
        self._signal(number, signal.SIGKILL)
        self.gateways[number].kill()

    def freeze(self, number: int) -> None:
        """Stop all processes of a gateway, as when its machine sleeps."""
        self._signal(number, signal.SIGSTOP)

    def thaw(self, number: int) -> None:
        """Let a frozen gateway go on."""
        self._signal(number, signal.SIGCONT)

    def _signal(self, number: int, signum: signal.Signals) -> None:
        gateway = self.gateways[number]
        for pid in (*gateway.children(), gateway.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signum)

    def interrupted(self, names: Collection[str]) -> int:
        """Return how many of these calls have a row that says that they were interrupted."""
        with psycopg.connect(self.postgres.url_of(ROLE), connect_timeout=int(BOUND_S)) as connection:
            [count] = connection.execute(_INTERRUPTED, (list(names),)).fetchone() or (0,)
        return int(count)

    def start_again(self, number: int) -> None:
        """Start a gateway that has ended, on the same machine."""
        assert not self.gateways[number].is_running
        self.gateways[number] = self._started(number)

    def follow(self, server: PostgresServer) -> None:
        """Lead all gateways to another PostgreSQL, as the address of a fleet's server does."""
        self.postgres = server
        for link in self.postgres_links:
            link.lead_to(server.port)
