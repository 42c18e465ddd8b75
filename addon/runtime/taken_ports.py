"""The error of a port that can't be listened on: which setting names it, and which process has it."""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_NO_ADDRESS: Final[int] = getattr(socket, "EAI_NODATA", socket.EAI_NONAME)
"""The resolver's error of a name without an address. Not every system has it."""
_HOST_ERRORS: Final = frozenset(
    {errno.EADDRNOTAVAIL, socket.EAI_NONAME, socket.EAI_AGAIN, socket.EAI_FAIL, _NO_ADDRESS}
)
_LISTENING: Final = "0A"
_MAX_PROCESSES: Final = 10_000


@contextmanager
def name_setting(section: str, option: str, port: int) -> Iterator[None]:
    """Add to an OSError of listening what to change: the port or host of ``section``, or an option of ``serve``."""
    try:
        yield
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        owner = find_listener(port) if taken else None
        is_host = error.errno in _HOST_ERRORS
        hint = f"change {section} host" if is_host else f"change {section} port, or use serve {option}"
        reason = f"{error.strerror} by {owner}" if owner else error.strerror
        raise OSError(error.errno, f"{reason}: {hint}") from error


def find_listener(port: int) -> str | None:
    """Return name and pid of a process that listens on a TCP port. None: there is none, or it may not be looked at."""
    inodes = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _find_inodes(table, port)}
    processes = (entry for entry in Path("/proc").glob("[0-9]*")) if inodes else iter(())
    for _, process in zip(range(_MAX_PROCESSES), processes, strict=False):
        # Processes of other users can't be looked at, and any may end in between.
        with suppress(OSError):
            if any(str(link.readlink()) in inodes for link in (process / "fd").iterdir()):
                name = (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
                return f"{name} (pid {process.name})" if name.isprintable() else f"pid {process.name}"
    return None


def _find_inodes(table: str, port: int) -> Iterator[str]:
    """Yield the inodes of the sockets that listen on ``port``. Source: proc_net_tcp.rst of Linux."""
    with suppress(OSError):
        for line in Path("/proc/net", table).read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]
