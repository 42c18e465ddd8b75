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
class Setup:
    """How a gateway differs from the default: one worker of this checkout, on SQLite, without TLS.

    ``slugs`` maps the dialect of further models to their names. ``others`` maps the names of further providers to their
    ports. ``keys`` has the key of each further workspace. ``certificate`` is for clients. With ``authority``, the
    provider uses TLS, and this file verifies its certificate. ``samples`` is the file of ``benchmarks.stack_sampler``.
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
    key = new_key()
    origin = f"{'https' if setup.authority else 'http'}://127.0.0.1"
    base_url = f"{origin}:{upstream_port}/v1"
    conf = _write_configuration(folder, base_url, key, setup)
    for slug, port in setup.others.items():
        _add_models_of(folder / "catalog_data", slug, f"{origin}:{port}/v1")
    for dialect, slug in setup.slugs.items():
        _add_model(folder / "catalog_data", dialect, slug, base_url)
    log = folder / "gateway.log"
    command = [*setup.command, "serve", "--conf", str(conf), "--port", "0", "--workers", str(setup.workers)]
    with running(command, log=log, environment=setup.environment) as process:
        port = _await_readiness(process, log)
        yield Target(setup.name, process.pid, port, key, tls=setup.certificate is not None)


def new_key() -> str:
    """Return a new key in the gateway's format."""
    return "tg_" + "".join(secrets.choice("0123456789abcdefghijklmnopqrstuvwxyz") for _ in range(40))


def _write_configuration(folder: Path, base_url: str, key: str, setup: Setup) -> Path:
    """Write the files of one gateway. Return the path of proxy.conf."""
    state = f'[state]\nbackend = "redis"\nredis_url = "{setup.redis_url}"\n' if setup.redis_url else ""
    tls = f'[listen]\ntls_certificate = "{setup.certificate}"\n' if setup.certificate else ""
    files = {
        "proxy.conf": f"{tls}[admin]\nport = 0\n[sandbox]\nenabled = false\n{state}",
        "catalog_data/providers.toml": f'[BENCH]\nbase_url = "{base_url}"\n'
        'dialect = "openai"\nplatform_key = "env:BENCH_PROVIDER_KEY"\n',
        "catalog_data/models.toml": f'["{SLUG}"]\nprovider = "BENCH"\n'
        f'upstream_model_id = "{UPSTREAM_MODEL_ID}"\nfamily = "bench"\ninput_price_per_m = "0.15"\n'
        'output_price_per_m = "0.60"\nmax_completion_tokens = 16384\nbyok_only = false\nactive = true\n',
        "catalog_data/families.toml": '[bench]\ncap_field = "max_completion_tokens"\n',
        **{
            f"policies/workspaces/bench{number or ''}.toml": _workspace(one)
            for number, one in enumerate([key, *setup.keys])
        },
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "proxy.conf"


def _workspace(key: str) -> str:
    key_hash = hashlib.sha256(key.encode()).hexdigest()
    return (
        'name = "Benchmark"\nplan = "pro"\nrpm_override = 100000000\n'
        'monthly_spend_cap_usd = "1000000"\noverage_protection = true\n'
        f'[[keys]]\nid = "bench"\nhash = "sha256:{key_hash}"\nactive = true\n'
        'spend_cap_usd = "1000000"\nrequest_cap = 1000000000\n'
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
