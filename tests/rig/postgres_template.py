"""The programs of PostgreSQL, and a new data folder that every server of the tests begins with.

To make it takes a second or two, so it is made once and kept as a file in ``.postgres`` of the project.
"""

import fcntl
import hashlib
import os
import pwd
import shutil
import subprocess
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rig.bounds import BOUND_S
from rig.configuration import ROOT
from rig.server_process import installed_program

PASSWORD = "canary-postgres-9Jw2"
"""The password of all roles. A test can look for it where no secret may be."""

ROLE = "tollgate"
"""The role of the gateway, which owns the database of the same name and may do nothing else."""

SUPERUSER = "postgres"

# Texts sort as in English, as on most servers: other than Python sorts them.
_INITDB = (
    *("--username", SUPERUSER, "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C"),
    *("--locale-provider", "icu", "--icu-locale", "en-US", "--wal-segsize", "1", "--no-sync"),
)
_SETUP = f"""
CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}';
ALTER DATABASE postgres RENAME TO {ROLE};
ALTER DATABASE {ROLE} OWNER TO {ROLE};
"""
_KEPT = ROOT / ".postgres"


class Postgres:
    """The installed programs, and the user who runs them: PostgreSQL refuses to run as root. Close it at the end."""

    def __init__(self, server: Path) -> None:
        self._opened = ExitStack()
        self._folder = server.resolve().parent
        self.user: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self.user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            self._copy_out_of_reach()

    def _copy_out_of_reach(self) -> None:
        """Copy the programs when their user can't reach them, such as those of a project in /root."""
        try:
            subprocess.run([self.program("postgres"), "--version"], stdout=subprocess.DEVNULL, **self.user)
        except PermissionError:
            copies = TemporaryDirectory(prefix="postgres-programs-", ignore_cleanup_errors=True)
            folder = Path(self._opened.enter_context(copies))
            folder.chmod(0o711)
            self._folder = Path(shutil.copytree(self._folder, folder / "server", symlinks=True))

    def close(self) -> None:
        """Remove the copy of the programs."""
        self._opened.close()

    def program(self, name: str) -> str:
        """Return the path of a program."""
        return str(self._folder / name)

    def run(self, *command: str, folder: Path, **options: Any) -> str:
        """Run a command to its end in the folder, as the user of the server, and return its output."""
        done = subprocess.run(
            command, cwd=folder, capture_output=True, timeout=BOUND_S, check=False, **self.user, **options
        )
        assert done.returncode == 0, f"{command[0]} failed: {done.stderr.decode()}"
        return done.stdout.decode()

    def give(self, folder: Path) -> None:
        """Make the user of the server the owner of the folder."""
        if self.user:
            os.chown(folder, self.user["user"], self.user["group"])

    def make_data_folder(self, folder: Path) -> None:
        """Make the folder ``data`` in the folder, which the server's user owns."""
        with self._template.open("rb") as packed:
            self.run("tar", "-xf", "-", folder=folder, stdin=packed)

    @cached_property
    def _template(self) -> Path:
        version = self.run(self.program("postgres"), "--version", folder=Path("/"))
        made_of = hashlib.sha256(repr((version, _INITDB, _SETUP)).encode()).hexdigest()
        template = _KEPT / f"data-{made_of[:16]}.tar"
        if not template.exists():
            _KEPT.mkdir(exist_ok=True)
            with (_KEPT / "lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not template.exists():
                    self._make(template)
        return template

    def _make(self, template: Path) -> None:
        with TemporaryDirectory(prefix="postgres-") as name:
            folder = Path(name)
            self.give(folder)
            (folder / "password").write_text(PASSWORD)
            (folder / "password").chmod(0o644)
            self.run(
                self.program("initdb"), *_INITDB, "--pwfile", "password", "--pgdata", "data", folder=folder
            )
            alone = (self.program("postgres"), "--single", "-D", "data", "template1")
            self.run(*alone, folder=folder, input=_SETUP.encode())
            self.run("tar", "-cf", "data.tar", "data", folder=folder)
            new = template.with_suffix(".new")
            shutil.copy(folder / "data.tar", new)
            new.rename(template)


def postgres_programs() -> Postgres:
    """Return the programs, and fetch them when there are none. Raise RuntimeError with the reason."""
    try:
        return Postgres(installed_program("install_postgres.sh"))
    except RuntimeError as error:
        raise RuntimeError(f"{error}TOLLGATE_WITHOUT_POSTGRES=1 skips the tests that need it.") from None
