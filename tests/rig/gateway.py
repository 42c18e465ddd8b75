"""A real gateway process with a configuration of its own, started, watched and ended by the test."""

import hashlib
import json
import os
import queue
import secrets
import signal
import sqlite3
import string
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import tomlkit

from rig.upstream import BOUND_S

ROOT = Path(__file__).resolve().parents[2]
PROVIDER_KEY = "fake-provider-key-" + "0" * 24
"""What the fake upstream's provider key is; it must be seen by the upstream and by nobody else."""
READY = "tollgate listening on "


def new_key() -> str:
    """A key as the gateway makes them: ``tg_`` and 40 base62 characters."""
    alphabet = string.digits + string.ascii_letters
    return "tg_" + "".join(secrets.choice(alphabet) for _ in range(40))


def key_hash(key: str) -> str:
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def provider(base_url: str, **changes: Any) -> dict[str, Any]:
    """One table of providers.toml."""
    return {"base_url": base_url, "dialect": "openai", "platform_key": "env:TEST_PROVIDER_KEY"} | changes


def model(**changes: Any) -> dict[str, Any]:
    """One table of models.toml: an active PAYG model of TESTER."""
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
    "openai-chat": {"cap_field": "max_completion_tokens"},
    "older-chat": {"cap_field": "max_tokens"},
}


def workspace(*keys: tuple[str, str, bool], **changes: Any) -> dict[str, Any]:
    """One workspace file; ``keys`` are (id, key, active). Its limits are out of every test's way."""
    listed = [{"id": name, "hash": key_hash(key), "active": active} for name, key, active in keys]
    return {"name": "Acme", "plan": "pro", "rpm_override": 1_000_000, **changes, "keys": listed}


@dataclass
class Configuration:
    """All that one gateway is configured with; ``write`` turns it into the files of an operator."""

    providers: Mapping[str, Any]
    models: Mapping[str, Any]
    families: Mapping[str, Any] = field(default_factory=lambda: FAMILIES)
    workspaces: Mapping[str, Any] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    program: Sequence[str] = ("-m", "addon.cli")
    """What Python runs as ``tollgate``."""

    def write(self, folder: Path) -> Path:
        """Write every file under ``folder``; return the path of proxy.conf."""
        standard: dict[str, dict[str, Any]] = {
            "listen": {"host": "127.0.0.1", "drain_timeout_s": 5},
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
        return _write_toml(folder / "proxy.conf", standard)


def _write_toml(path: Path, table: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tomlkit.dumps(table), encoding="utf-8")
    return path


class Gateway:
    """One gateway process. ``keys`` are its clients' by name, ``ci`` the usual one; ``logs`` grows."""

    def __init__(self, configuration: Configuration, folder: Path, keys: Mapping[str, str]) -> None:
        self.folder = folder
        self.keys = keys
        self.url = ""
        self.logs: list[dict[str, Any]] = []
        self.stderr_lines: list[str] = []
        self._log_grew = threading.Condition()
        self._stdout: queue.Queue[str | None] = queue.Queue()
        conf = configuration.write(folder)
        command = [sys.executable, *configuration.program, "serve", "--conf", str(conf), "--port", "0"]
        self._process = subprocess.Popen(
            command,
            env=_environment(configuration.environment),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read_stdout, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_stderr, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        try:
            line = self._stdout.get(timeout=BOUND_S)
            if line is None or not line.startswith(READY):
                self._process.wait(BOUND_S)
                raise AssertionError(f"no readiness line but {line!r}; stderr:\n{self.stderr}")
            self.url = line.removeprefix(READY).strip()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._process.poll() is not None:
            self._finish_reading()
            return
        code = self.stop()
        if kind is None:
            assert code == 0, f"exit code {code} after SIGTERM; stderr:\n{self.stderr}"
            self.assert_no_secret_logged()

    @property
    def key(self) -> str:
        """An active key of the workspace ``acme``."""
        return self.keys["ci"]

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stderr(self) -> str:
        """Its last lines."""
        return "\n".join(self.stderr_lines[-20:])

    @property
    def admin_url(self) -> str:
        """Where /healthz, /readyz and /metrics answer."""
        return str(self.wait_for_log(lambda line: line.get("event") == "admin listening")["url"])

    @property
    def headers(self) -> dict[str, str]:
        """What a client sends with a chat call."""
        return {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}

    def stop(self, bound_s: float = BOUND_S) -> int:
        """SIGTERM; return the exit code. One that does not end in time is killed, and the test fails."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(bound_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            self._finish_reading()

    def terminate(self) -> None:
        """SIGTERM without waiting."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self, bound_s: float = BOUND_S) -> int:
        """Wait for the process to end; return its exit code."""
        code = self._process.wait(bound_s)
        self._finish_reading()
        return code

    def kill(self) -> None:
        """SIGKILL to this process and no other."""
        self._process.kill()
        self._process.wait(BOUND_S)
        self._finish_reading()

    def later_stdout(self) -> list[str]:
        """What stdout said after the readiness line; call once the process has ended."""
        lines = list(self._stdout.queue)
        return [line for line in lines if line is not None]

    def wait_for_log(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first log line that is wanted, already written or still to come."""

        def find() -> dict[str, Any] | None:
            return next((line for line in self.logs if wanted(line)), None)

        with self._log_grew:
            found = self._log_grew.wait_for(find, BOUND_S)
        assert found, f"no such log line; stderr:\n{self.stderr}"
        return found

    def ledger_rows(self) -> list[dict[str, Any]]:
        """Every row of the table ``usage`` now, oldest first."""
        connection = sqlite3.connect(f"file:{self.folder}/var/tollgate.db?mode=ro", uri=True)
        try:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute("select * from usage order by created_at, rowid")]
        finally:
            connection.close()

    def wait_for_row(self, wanted: str | Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The one ledger row with this id, or that is wanted.

        A row of another process has no event to wait for, so this looks again until it is there.
        """
        is_wanted = wanted if callable(wanted) else (lambda row: row["id"] == wanted)
        deadline = time.monotonic() + BOUND_S
        while time.monotonic() < deadline:
            if found := [row for row in self.ledger_rows() if is_wanted(row)]:
                assert len(found) == 1, f"more than one row: {found}"
                return found[0]
            time.sleep(0.01)
        raise AssertionError(f"no such row among {self.ledger_rows()[-5:]}")

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Ask again until ``holds``: for what another process does without telling anybody."""
        deadline = time.monotonic() + BOUND_S
        while not holds():
            assert time.monotonic() < deadline, "it never came true"
            time.sleep(0.01)

    def assert_no_secret_logged(self, others: Iterable[str] = ()) -> None:
        """No line of stderr bears a client's key, its hash, or the provider's key."""
        written = "\n".join(self.stderr_lines)
        hashes = [key_hash(key).removeprefix("sha256:") for key in self.keys.values()]
        for secret in (*self.keys.values(), *hashes, PROVIDER_KEY, *others):
            assert secret not in written, f"a secret was logged: {secret[:6]}…"

    def _read_stdout(self, pipe: IO[str]) -> None:
        for line in pipe:
            self._stdout.put(line)
        self._stdout.put(None)

    def _read_stderr(self, pipe: IO[str]) -> None:
        for line in pipe:
            with self._log_grew:
                self.stderr_lines.append(line.rstrip("\n"))
                if line.startswith("{"):
                    self.logs.append(json.loads(line))
                self._log_grew.notify_all()

    def _finish_reading(self) -> None:
        for reader in self._readers:
            reader.join(BOUND_S)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def _environment(changes: Mapping[str, str]) -> dict[str, str]:
    # Whatever keys and proxies the developer's shell has must not change what a test sees.
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    standard = {"PYTHONPATH": str(ROOT), "TEST_PROVIDER_KEY": PROVIDER_KEY, "PYTHONUNBUFFERED": "1"}
    return kept | standard | dict(changes)
