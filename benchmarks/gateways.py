"""Gateways with all features on, of this checkout or another one. Each has its own files."""

import contextlib
import hashlib
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from benchmarks import stack_sampler
from benchmarks.processes import START_LIMIT_S, running, while_starting
from benchmarks.traffic import SLUG, UPSTREAM_MODEL_ID, Target

ROOT = Path(__file__).resolve().parents[1]
READY = "tollgate listening on "


@dataclass(frozen=True, slots=True)
class Money:
    """The prices for a million tokens, the markup, and the budget of the key and of the month."""

    input_usd: str = "0.15"
    output_usd: str = "0.60"
    markup_percent: str = "4"
    budget_usd: str = "1000000"


MONEY = Money()


@dataclass(frozen=True, slots=True)
class Setup:
    """How a gateway differs from the default: one worker of this checkout, on SQLite, without TLS.

    ``slugs`` maps the dialect of further models to their names. ``others`` maps the names of further providers to their
    ports. ``keys`` has the key of each further workspace. ``certificate`` is for clients. With ``authority``, the
    provider uses TLS, and this file verifies its certificate. ``samples`` is the file of ``benchmarks.stack_sampler``.
    ``money`` has the prices and the budget.
    """

    name: str = "tollgate"
    workers: int = 1
    redis_url: str = ""
    slugs: Mapping[str, str] = MappingProxyType({})
    others: Mapping[str, int] = MappingProxyType({})
    keys: tuple[str, ...] = ()
    checkout: Path = ROOT
    certificate: Path | None = None
    authority: Path | None = None
    samples: Path | None = None
    money: Money = MONEY

    @property
    def python(self) -> str:
        """The Python of the checkout's own environment if it has one, else this one."""
        own = self.checkout / ".venv" / "bin" / "python"
        return str(own) if own.exists() else sys.executable

    @property
    def command(self) -> list[str]:
        """The command before its arguments."""
        if self.samples is None:
            return [self.python, "-m", "addon.cli"]
        return [self.python, str(stack_sampler.__file__), str(self.samples), "addon.cli"]

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that the gateway gets in addition to ours."""
        trusted = {"SSL_CERT_FILE": str(self.authority)} if self.authority else {}
        return {
            "BENCH_PROVIDER_KEY": "fake-provider-key",
            "PYTHONPATH": str(self.checkout),
            "PYTHONSAFEPATH": "1",
            **trusted,
        }


PLAIN = Setup()


@contextlib.contextmanager
def gateway(upstream_port: int, folder: Path, setup: Setup = PLAIN) -> Iterator[Target]:
    """Yield a gateway in front of the upstream, with every limit set. Write its files to ``folder``."""
    with configure(upstream_port, folder, setup).running() as target:
        yield target


@dataclass(frozen=True, slots=True)
class Configured:
    """The files of a gateway, and its key. It may be started again on them."""

    conf: Path
    key: str
    setup: Setup

    @property
    def ledger(self) -> Path:
        """The SQLite file."""
        return self.conf.parent / "var" / "tollgate.db"

    @contextlib.contextmanager
    def running(self) -> Iterator[Target]:
        """Yield a gateway that is ready."""
        setup, log = self.setup, self.conf.parent / "gateway.log"
        options = ["--conf", str(self.conf), "--port", "0", "--workers", str(setup.workers)]
        with running([*setup.command, "serve", *options], log=log, environment=setup.environment) as process:
            port = _await_readiness(process, log)
            yield Target(setup.name, process.pid, port, self.key, tls=setup.certificate is not None)


def configure(upstream_port: int, folder: Path, setup: Setup) -> Configured:
    """Write the files of a gateway in front of the upstream."""
    key = new_key()
    origin = f"{'https' if setup.authority else 'http'}://127.0.0.1"
    base_url = f"{origin}:{upstream_port}/v1"
    conf = _write_configuration(folder, base_url, key, setup)
    for slug, port in setup.others.items():
        _add_models_of(folder / "catalog_data", slug, f"{origin}:{port}/v1")
    for dialect, slug in setup.slugs.items():
        _add_model(folder / "catalog_data", dialect, slug, base_url)
    return Configured(conf, key, setup)


def new_key() -> str:
    """Return a new key in the gateway's format."""
    return "tg_" + "".join(secrets.choice("0123456789abcdefghijklmnopqrstuvwxyz") for _ in range(40))


def _write_configuration(folder: Path, base_url: str, key: str, setup: Setup) -> Path:
    """Write the files of one gateway. Return the path of proxy.conf."""
    state = f'[state]\nbackend = "redis"\nredis_url = "{setup.redis_url}"\n' if setup.redis_url else ""
    money = setup.money
    billing = f'[billing]\nmarkup_percent = "{money.markup_percent}"\n'
    tls = f'[listen]\ntls_certificate = "{setup.certificate}"\n' if setup.certificate else ""
    files = {
        "proxy.conf": f"{tls}[admin]\nport = 0\n[sandbox]\nenabled = false\n{state}{billing}",
        "catalog_data/providers.toml": f'[BENCH]\nbase_url = "{base_url}"\n'
        'dialect = "openai"\nplatform_key = "env:BENCH_PROVIDER_KEY"\n',
        "catalog_data/models.toml": f'["{SLUG}"]\nprovider = "BENCH"\n'
        f'upstream_model_id = "{UPSTREAM_MODEL_ID}"\nfamily = "bench"\ninput_price_per_m = "{money.input_usd}"\n'
        f'output_price_per_m = "{money.output_usd}"\nmax_completion_tokens = 16384\nbyok_only = false\n'
        "active = true\n",
        "catalog_data/families.toml": '[bench]\ncap_field = "max_completion_tokens"\n',
        **{
            f"policies/workspaces/bench{number or ''}.toml": _workspace(one, money.budget_usd)
            for number, one in enumerate([key, *setup.keys])
        },
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "proxy.conf"


def _workspace(key: str, budget_usd: str) -> str:
    key_hash = hashlib.sha256(key.encode()).hexdigest()
    return (
        'name = "Benchmark"\nplan = "pro"\nrpm_override = 100000000\n'
        f'monthly_spend_cap_usd = "{budget_usd}"\noverage_protection = true\n'
        f'[[keys]]\nid = "bench"\nhash = "sha256:{key_hash}"\nactive = true\n'
        f'spend_cap_usd = "{budget_usd}"\nrequest_cap = 1000000000\n'
    )


def _add_models_of(catalog: Path, slug: str, base_url: str) -> None:
    """Add a provider with one model. Both are named ``slug``."""
    name = slug.upper()
    tables = {
        "providers.toml": f'["{name}"]\nbase_url = "{base_url}"\n'
        'dialect = "openai"\nplatform_key = "env:BENCH_PROVIDER_KEY"\n',
        "models.toml": f'["{slug}"]\nprovider = "{name}"\nupstream_model_id = "up"\nfamily = "bench"\n'
        'input_price_per_m = "0.15"\noutput_price_per_m = "0.60"\nmax_completion_tokens = 16384\n'
        "byok_only = false\nactive = true\n",
    }
    for file_name, text in tables.items():
        with (catalog / file_name).open("a", encoding="utf-8") as file:
            file.write(text)


def _add_model(catalog: Path, dialect: str, slug: str, base_url: str) -> None:
    provider, family = dialect.upper(), "bench" if dialect == "openai" else f"bench-{dialect}"
    tables = {
        "providers.toml": f'[{provider}]\nbase_url = "{base_url}"\n'
        f'dialect = "{dialect}"\nplatform_key = "env:BENCH_PROVIDER_KEY"\n',
        "models.toml": f'["{slug}"]\nprovider = "{provider}"\nupstream_model_id = "up"\nfamily = "{family}"\n'
        'input_price_per_m = "0.15"\noutput_price_per_m = "0.60"\nmax_completion_tokens = 16384\n'
        "byok_only = false\nactive = true\n",
        "families.toml": f"[{family}]\n" if family != "bench" else "",
    }
    for name, text in tables.items():
        with (catalog / name).open("a", encoding="utf-8") as file:
            file.write(text)


def _await_readiness(process: subprocess.Popen[str], log: Path) -> int:
    """Return the port of the gateway's readiness line. Raise ``RuntimeError`` with its output if there is none."""
    for _ in while_starting(process):
        for line in log.read_text(encoding="utf-8").splitlines():
            if line.startswith(READY):
                return int(line.rpartition(":")[2])
    raise RuntimeError(
        f"the gateway did not start within {START_LIMIT_S:.0f} s:\n{log.read_text(encoding='utf-8')}"
    )
