"""The configuration of a test's gateway, as the files of an operator."""

import hashlib
import os
import secrets
import string
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rig.bounds import BOUND_S
from rig.session_keys import write_cheap_session_keys
from rig.toml_text import toml_text

ROOT = Path(__file__).resolve().parents[2]
TOLLGATE = ("-c", "from addon.cli import main; main(prog_name='tollgate')")
CLI = ("-m", "addon.cli")
"""The ``program`` of a gateway that runs in a new interpreter."""
SURE_TO_RESEND = ("-c", f"from policies import resend; resend.MARGIN_S = {BOUND_S}; {TOLLGATE[1]}")
"""The ``program`` of a gateway that sends a request again however late its reused connection closes."""
PROVIDER_KEY = "fake-provider-key-" + "0" * 24
"""The key of the fake upstream. Only the upstream may see it."""


def new_key() -> str:
    """Return a new API key in the form of the gateway: ``tg_`` and 40 base62 characters."""
    alphabet = string.digits + string.ascii_letters
    return "tg_" + "".join(secrets.choice(alphabet) for _ in range(40))


def key_hash(key: str) -> str:
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def provider(base_url: str, **changes: Any) -> dict[str, Any]:
    """Return a table of providers.toml."""
    return {"base_url": base_url, "dialect": "openai", "platform_key": "env:TEST_PROVIDER_KEY"} | changes


def model(**changes: Any) -> dict[str, Any]:
    """Return a table of models.toml: an active PAYG model of TESTER."""
    return {
        "provider": "TESTER",
        "upstream_model_id": "vendor/model-2026",
        "family": "openai-chat",
        "input_price_per_m": "0.15",
        "output_price_per_m": "0.6",
        "max_completion_tokens": 16384,
        "byok_only": False,
        "active": True,
    } | changes


FAMILIES: Mapping[str, Any] = {
    "openai-chat": {"cap_field": "max_completion_tokens", "roles": {}},
    "older-chat": {"cap_field": "max_tokens"},
}


def workspace(*keys: tuple[str, str, bool], **changes: Any) -> dict[str, Any]:
    """Return a workspace file; ``keys`` are (id, key, active). Its limits are higher than any test needs."""
    listed = [{"id": name, "hash": key_hash(key), "active": active} for name, key, active in keys]
    return {"name": "Acme", "plan": "pro", "rpm_override": 1_000_000, **changes, "keys": listed}


@dataclass
class Configuration:
    """The configuration of a gateway. ``write`` writes the files of an operator."""

    providers: Mapping[str, Any]
    models: Mapping[str, Any]
    families: Mapping[str, Any] = field(default_factory=lambda: FAMILIES)
    workspaces: Mapping[str, Any] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    program: Sequence[str] = TOLLGATE
    """The arguments of Python that run ``tollgate``. Code runs in a copy of a process that has imported it."""
    arguments: Sequence[str] = ("--port", "0")
    """The arguments after ``serve --conf FILE``."""

    def write(self, folder: Path) -> Path:
        """Write all files to ``folder``. Return the path of proxy.conf."""
        standard: dict[str, dict[str, Any]] = {
            "listen": {"host": "127.0.0.1", "drain_timeout_s": BOUND_S},
            "upstream": {"connect_timeout_s": BOUND_S, "retries": 0},
            "admin": {"host": "127.0.0.1", "port": 0},
            "paths": {
                "catalog": "catalog_data",
                "workspaces": "policies/workspaces",
                "database": "var/tollgate.db",
            },
            "sandbox": {"enabled": False},
        }
        for name, section in self.sections.items():
            standard[name] = standard.get(name, {}) | dict(section)
        tables = {"providers": self.providers, "models": self.models, "families": self.families}
        for name, table in tables.items():
            _write_toml(folder / "catalog_data" / f"{name}.toml", table)
        for name, table in self.workspaces.items():
            _write_toml(folder / "policies" / "workspaces" / f"{name}.toml", table)
        if "console_password" in standard["admin"]:
            write_cheap_session_keys(folder / "var")
        return _write_toml(folder / "proxy.conf", standard)


def _write_toml(path: Path, table: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(toml_text(table), encoding="utf-8")
    return path


def serve_command(configuration: Configuration, conf: Path) -> list[str]:
    """Return the command line of ``tollgate serve``."""
    program = (sys.executable, *configuration.program)
    return [*program, "serve", "--conf", str(conf), *configuration.arguments]


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    # Keys and proxies of the developer's shell must not change the results of a test.
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    standard = {"PYTHONPATH": str(ROOT), "TEST_PROVIDER_KEY": PROVIDER_KEY, "PYTHONUNBUFFERED": "1"}
    return kept | standard | dict(changes)
