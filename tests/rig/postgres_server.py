"""A real PostgreSQL server with its own processes, port and folder, and standbys of it.

A test can stop, kill, freeze and restart each of them, cut a standby off, and promote it.
"""

import os
import signal
import subprocess
from contextlib import ExitStack, suppress
from ctypes import CDLL
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

from rig.bounds import BOUND_S
from rig.postgres_template import PASSWORD, ROLE, SUPERUSER, Postgres
from rig.server_process import HOST, ServerProcess

_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_wal_size": "256MB",
    "shared_buffers": "32MB",
    # A server that is killed must leave nothing outside of its folder.
    "dynamic_shared_memory_type": "mmap",
    "wal_retrieve_retry_interval": "100ms",
}
_NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}
_REMOVE = 0
"""The command of ``shmctl`` that removes a segment."""


class PostgresServer(ServerProcess):
    """One server, or a standby of ``primary``.

    ``url`` is for the owner of an empty database, who has no other rights. A killed server comes back with all that
    was committed. ``fsync`` makes it write to the disk at each commit, as an operator's server does. ``settings`` are
    those of postgresql.conf.
    """

    _stop_signal = signal.SIGINT  # It does not wait until clients have gone.

    def __init__(
        self,
        programs: Postgres,
        *,
        fsync: bool = False,
        primary: "PostgresServer | None" = None,
        **settings: str,
    ) -> None:
        super().__init__("postgres")
        self.url = self.url_of(ROLE)
        self.name = f"standby_{self.port}"
        """What ``synchronous_standby_names`` calls this server."""
        self._programs = programs
        self._user = programs.user
        self._settings = _SETTINGS | ({} if fsync else _NOT_DURABLE) | {"port": str(self.port)} | settings
        self._primary = primary
        self._standbys = ExitStack()
        self._numbers = count(1)
        self._data = Path(self._folder.name, "data")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._standbys.close()
        self._remove_shared_memory()
        super().__exit__(kind, error, at)

    def url_of(self, database: str, user: str = ROLE) -> str:
        """Return the URL of a database."""
        return f"postgresql://{user}:{PASSWORD}@{HOST}:{self.port}/{database}"

    def execute(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement as a superuser and return its rows."""
        import psycopg  # Every process of the tests imports this module, and few start a server.

        url = self.url_of(ROLE, SUPERUSER)
        with psycopg.connect(url, autocommit=True, connect_timeout=int(BOUND_S)) as connection:
            ran = connection.execute(query, values)  # type: ignore[call-overload]
            return ran.fetchall() if ran.description else []

    def create_database(self, template: str = "template0") -> str:
        """Create a database as a copy of another, which nobody may be using. Return its name: see ``url_of``."""
        name = f"{ROLE}_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} OWNER {ROLE} TEMPLATE {template} STRATEGY file_copy")
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database, and end the connections to it."""
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def configure(self, name: str, value: str | None) -> None:
        """Set a setting of the running server, or take it back with None. Return when all processes know it."""
        self.execute(
            f"ALTER SYSTEM SET {name} = '{value}'" if value is not None else f"ALTER SYSTEM RESET {name}"
        )
        [(before,)] = self.execute("SELECT pg_conf_load_time()")
        self.execute("SELECT pg_reload_conf()")
        self._wait_until(
            lambda: self.execute("SELECT pg_conf_load_time()") != [(before,)],
            "it did not reload its settings",
        )
        # The process that writes checkpoints says whether commits wait for standbys, and reads its settings first.
        self.execute("CHECKPOINT")

    def kill(self) -> None:
        """Send SIGKILL to all processes and wait for their end."""
        # The parent is killed last: a stopped one starts no more of them.
        self._signal([self.pid], signal.SIGSTOP, "TZ")
        # One that still ends would keep the next start from the data.
        self._signal(self._children(), signal.SIGKILL, "Z")
        super().kill()

    def freeze(self) -> None:
        """Freeze all processes: connections stay open and new ones are accepted, but none is answered."""
        self._signal([self.pid], signal.SIGSTOP, "TZ")
        self._signal(self._children(), signal.SIGSTOP, "TZ")

    def thaw(self) -> None:
        """Continue all processes."""
        for pid in self._children():
            with suppress(ProcessLookupError):  # One that was asked to stop may have ended just now.
                os.kill(pid, signal.SIGCONT)
        super().thaw()

    def standby(self, *, synchronous: bool = False, **settings: str) -> "PostgresServer":
        """Start a standby, which ends with this server. Commits wait for it, and only for it, if it is synchronous."""
        standby = PostgresServer(self._programs, primary=self, **settings)
        self._standbys.enter_context(standby)
        self._wait_for_standby(standby.name)
        if synchronous:
            self.configure("synchronous_standby_names", standby.name)
        return standby

    def copy(self) -> "PostgresServer":
        """Copy the data of now, and return a server of it, which is not started: a restore from a backup."""
        made = PostgresServer(self._programs, primary=self)
        self._standbys.push(made.__exit__)
        made._prepare()
        (made._data / "standby.signal").unlink()
        return made

    def dump_into(self, other: "PostgresServer") -> None:
        """Write the database of now into the empty one of another server, whose ``system_identifier`` is another."""
        dump = (self._programs.program("pg_dump"), "--no-owner", self.url)
        restore = (self._programs.program("psql"), "--quiet", "--set=ON_ERROR_STOP=1", other.url)
        dumped = subprocess.run(dump, check=True, stdout=subprocess.PIPE)
        subprocess.run(restore, input=dumped.stdout, check=True, stdout=subprocess.DEVNULL)

    def cut(self) -> None:
        """Let this standby receive nothing more, so that it loses later commits. Undo it with ``reconnect``."""
        self.configure("primary_conninfo", "")
        self._wait_until(lambda: not self.execute("SELECT 1 FROM pg_stat_wal_receiver"), "it still receives")

    def reconnect(self) -> None:
        """Let this standby receive what it has missed, and wait until it is connected."""
        self.configure("primary_conninfo", None)
        assert self._primary
        self._primary._wait_for_standby(self.name)

    def pause_replay(self) -> None:
        """Let this standby keep what it receives, and not show it."""
        self.execute("SELECT pg_wal_replay_pause()")
        self._wait_until(
            lambda: self.execute("SELECT pg_get_wal_replay_pause_state()") == [("paused",)],
            "it still replays",
        )

    def resume_replay(self) -> None:
        """Let this standby show what it has received."""
        self.execute("SELECT pg_wal_replay_resume()")

    def catch_up(self) -> None:
        """Wait until this standby shows all that its primary has committed."""
        assert self._primary
        [(end,)] = self._primary.execute("SELECT pg_current_wal_lsn()::text")
        self._wait_until(
            lambda: self.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", end) == [(True,)],
            "it does not catch up",
        )

    def promote(self) -> None:
        """Make this standby a primary, whose commits wait for no standby."""
        for name in (
            "synchronous_standby_names",
            "primary_conninfo",
        ):  # Those of its primary, and of ``cut``.
            self.execute(f"ALTER SYSTEM RESET {name}")
        assert self.execute(f"SELECT pg_promote(wait_seconds => {int(BOUND_S)})") == [(True,)]

    def _prepare(self) -> None:
        folder = Path(self._folder.name)
        self._programs.give(folder)
        if self._primary is None:
            self._programs.make_data_folder(folder)
            return
        source = self._primary.url_of(ROLE, SUPERUSER)
        copy = ("-D", "data", "--dbname", source, "--checkpoint", "fast", "--no-sync", "--no-manifest")
        self._programs.run(self._programs.program("pg_basebackup"), *copy, folder=folder)
        (self._data / "standby.signal").touch()
        with (self._data / "postgresql.conf").open("a") as conf:
            conf.write(f"primary_conninfo = '{source}?application_name={self.name}'\n")

    def _command(self) -> list[str]:
        words = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        return [self._programs.program("postgres"), "-D", "data", *words]

    def _answers(self) -> bool:
        """Return what the server writes into its file: this is faster than to connect."""
        with suppress(FileNotFoundError):
            lines = self._pid_file.read_text().splitlines()
            return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"
        return False

    def _wait_for_standby(self, name: str) -> None:
        query = "SELECT 1 FROM pg_stat_replication WHERE application_name = %s AND state = 'streaming'"
        self._wait_until(lambda: self.execute(query, name), f"{name} does not connect")

    def _children(self) -> list[int]:
        with suppress(FileNotFoundError, ProcessLookupError):
            listed = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
            return [int(pid) for pid in listed.split()]
        return []

    def _signal(self, pids: list[int], signum: int, states: str) -> None:
        """Send a signal to these processes, and wait until those that are left have one of the states."""
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signum)
        self._wait_until(lambda: self._states(pids) <= set(states), "its processes do not obey")

    def _states(self, pids: list[int]) -> set[str]:
        """Return the states of these processes, as a letter each; nothing of those that have ended."""
        states = set()
        for pid in pids:
            with suppress(FileNotFoundError, ProcessLookupError):
                states.add(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
        return states

    @property
    def _pid_file(self) -> Path:
        return self._data / "postmaster.pid"

    def _remove_shared_memory(self) -> None:
        """Remove what a killed server leaves in the system. The numbers of such segments are limited."""
        with suppress(FileNotFoundError, IndexError):
            CDLL(None).shmctl(int(self._pid_file.read_text().splitlines()[6].split()[1]), _REMOVE, None)
