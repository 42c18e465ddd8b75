"""A real gateway process with its own configuration. The test starts, watches and stops it."""

import json
import os
import queue
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import httpx

from addon.serve.template_process import TEMPLATE_NAME
from rig.bounds import BOUND_S
from rig.configuration import (
    PROVIDER_KEY,
    Configuration,
    environment,
    key_hash,
    serve_command,
)
from rig.fork_server import ForkedProcess, fork_server, is_forkable
from rig.raw_clients import request_bytes

type Process = subprocess.Popen[bytes] | ForkedProcess

READY = "tollgate listening on "
PAGES = "addon.console.page_process"


class Gateway:
    """One gateway process. ``keys`` are the API keys by name, with ``ci`` as the default; ``logs`` grows."""

    def __init__(self, configuration: Configuration, folder: Path, keys: Mapping[str, str]) -> None:
        self.folder = folder
        self.keys = keys
        self.url = ""
        self.logs: list[dict[str, Any]] = []
        self.stderr_lines: list[str] = []
        self._told_to_end = False
        self._log_grew = threading.Condition()
        self._stdout: queue.Queue[str | None] = queue.Queue()
        self._process, self._pipes = self._started(configuration, configuration.write(folder))
        self._readers = [
            threading.Thread(target=read, args=(pipe,), daemon=True)
            for read, pipe in zip((self._read_stdout, self._read_stderr), self._pipes, strict=True)
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        try:
            self.url = self._wait_until_ready()
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
            self.assert_all_given_back()

    @property
    def key(self) -> str:
        """An active key of the workspace ``acme``."""
        return self.keys["ci"]

    @property
    def port(self) -> int:
        """The port for clients."""
        return int(self.url.rpartition(":")[2])

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def children(self) -> list[int]:
        """Its workers: its running child processes but their template and the process of pages."""
        return [pid for pid, name in self._child_names().items() if name not in (TEMPLATE_NAME, PAGES)]

    def page_processes(self) -> list[int]:
        """The process that makes the pages of its console, if there is one."""
        return [pid for pid, name in self._child_names().items() if name == PAGES]

    def template(self) -> int:
        """The process that its workers were forked from."""
        [pid] = [pid for pid, name in self._child_names().items() if name == TEMPLATE_NAME]
        return pid

    def _child_names(self) -> dict[int, str]:
        listed = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii").split()
        names = {}
        for pid in listed:
            with suppress(FileNotFoundError, ProcessLookupError):  # It has just ended.
                is_pages = PAGES.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
                name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").rstrip()
                names[int(pid)] = PAGES if is_pages else name
        return names

    @property
    def stderr(self) -> str:
        """The last lines of stderr."""
        return "\n".join(self.stderr_lines[-20:])

    @property
    def admin_url(self) -> str:
        """The URL of /healthz, /readyz and /metrics."""
        return str(self.wait_for_log(lambda line: line.get("event") == "admin listening")["url"])

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a chat call."""
        return {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}

    def _started(self, configuration: Configuration, conf: Path) -> tuple[Process, list[IO[str]]]:
        """Start the process. Return it with its stdout and stderr."""
        variables = environment(configuration.environment)
        pipes = [os.pipe(), os.pipe()]
        with ExitStack() as handed_over:
            nothing = handed_over.enter_context(open(os.devnull))
            out, err = (handed_over.enter_context(open(end, "w")) for _, end in pipes)
            process: Process
            command = self._command(configuration, conf)
            if is_forkable(command):
                process = fork_server().start(command, variables, self.folder, [nothing, out, err])
            else:
                process = subprocess.Popen(
                    command, env=variables, cwd=self.folder, stdin=nothing, stdout=out, stderr=err
                )
        return process, [open(end, encoding="utf-8") for end, _ in pipes]

    @staticmethod
    def _command(configuration: Configuration, conf: Path) -> list[str]:
        return serve_command(configuration, conf)

    def _wait_until_ready(self) -> str:
        line = self._next_stdout_line()
        assert line.startswith(READY), f"no readiness line but {line!r}; stderr:\n{self.stderr}"
        return line.removeprefix(READY).strip()

    def _next_stdout_line(self) -> str:
        line = self._stdout.get(timeout=BOUND_S)
        if line is None:
            self.wait()
            raise AssertionError(f"it ended before it was ready; stderr:\n{self.stderr}")
        return line

    def chat_bytes(self, **body: Any) -> bytes:
        """Return the bytes of a chat call of the key ``ci`` for a ``RawClient``. The default message is a greeting."""
        content = json.dumps({"messages": [{"role": "user", "content": "hello"}]} | body).encode()
        return request_bytes("POST", "/v1/chat/completions", self.headers.items(), content)

    def readiness(self) -> httpx.Response:
        """Return the answer of /readyz."""
        return httpx.get(f"{self.admin_url}/readyz", timeout=BOUND_S, trust_env=False)

    def stop(self, bound_s: float = BOUND_S) -> int:
        """Send SIGTERM and return the exit code. A process that does not end in time is killed, and the test fails."""
        if not self._told_to_end:
            self.terminate()
        try:
            return self._process.wait(bound_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            self._finish_reading()

    def terminate(self, signum: signal.Signals = signal.SIGTERM) -> None:
        """Send SIGTERM without waiting."""
        self._told_to_end = True
        self._process.send_signal(signum)

    def wait(self, bound_s: float = BOUND_S) -> int:
        """Wait for the end of the process. Return its exit code."""
        code = self._process.wait(bound_s)
        self._finish_reading()
        return code

    def kill(self) -> None:
        """Send SIGKILL to this process only."""
        self._process.kill()
        self._process.wait(BOUND_S)
        self._finish_reading()

    def later_stdout(self) -> list[str]:
        """Return the lines of stdout after the readiness line. Call it after the end of the process."""
        lines = list(self._stdout.queue)
        return [line for line in lines if line is not None]

    def wait_for_log(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first wanted log line. Wait for it if it is not written yet."""

        def find() -> dict[str, Any] | None:
            return next((line for line in self.logs if wanted(line)), None)

        with self._log_grew:
            found = self._log_grew.wait_for(find, BOUND_S)
        assert found, f"no such log line; stderr:\n{self.stderr}"
        return found

    def ledger_rows(self, row_id: str = "") -> list[dict[str, Any]]:
        """Return the rows of the table ``usage``, oldest first, or those with an id."""
        connection = sqlite3.connect(f"file:{self.folder}/var/tollgate.db?mode=ro", uri=True)
        where, values = ("where id = ?", [row_id]) if row_id else ("", [])
        try:
            connection.row_factory = sqlite3.Row
            query = f"select * from usage {where} order by created_at, rowid"
            return [dict(row) for row in connection.execute(query, values)]
        finally:
            connection.close()

    def wait_for_row(self, wanted: str | Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the only ledger row with this id, or the only wanted one.

        Another process writes the row, so there is no event to wait for: look again until it exists.
        """
        row_id, is_wanted = ("", wanted) if callable(wanted) else (wanted, bool)
        deadline = time.monotonic() + BOUND_S
        while time.monotonic() < deadline:
            if found := [row for row in self.ledger_rows(row_id) if is_wanted(row)]:
                assert len(found) == 1, f"more than one row: {found}"
                return found[0]
            time.sleep(0.01)
        raise AssertionError(f"no such row among {self.ledger_rows()[-5:]}")

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Check again until ``holds`` is true. Use it for effects of another process, which sends no event."""
        deadline = time.monotonic() + BOUND_S
        while not holds():
            assert time.monotonic() < deadline, "it never came true"
            time.sleep(0.01)

    def assert_no_secret_logged(self, others: Iterable[str] = ()) -> None:
        """Check that no line of stderr has a client's key, its hash, or the provider's key."""
        written = "\n".join(self.stderr_lines)
        hashes = [key_hash(key).removeprefix("sha256:") for key in self.keys.values()]
        for secret in (*self.keys.values(), *hashes, PROVIDER_KEY, *others):
            assert secret not in written, f"a secret was logged: {secret[:6]}…"

    def assert_all_given_back(self) -> None:
        """Check that no process of the gateway ended with something in use that its calls had taken."""
        left = [line["in_use"] for line in self.logs if line.get("event") == "not given back"]
        assert not left, f"not given back: {left}"

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
        for pipe in self._pipes:
            pipe.close()
