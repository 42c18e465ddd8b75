"""Files of operators that every user of the machine may read or write. ``tollgate check`` warns of them.

Who may write proxy.conf or the workspaces folder decides where calls and keys go. Who may read them sees the customers,
their limits, and the hashes of their keys.
"""

import stat
from collections.abc import Iterator
from pathlib import Path

from addon.settings.gateway_secrets import list_conf_secrets
from addon.settings.overview import FileWarning
from addon.settings.settings import Settings
from addon.settings.value_types import SecretReference


def find_open_files(settings: Settings) -> list[FileWarning]:
    """Return a warning for proxy.conf, the workspaces folder, and each secret file of proxy.conf, if others may use it.

    A checkout of the program in a private folder has readable files, too. So reading proxy.conf or the folder counts
    only where the folders above let others in. A right to write, or to read a secret, always counts.
    """
    conf = settings.written
    found = [("", path, _find_rights(path)) for path in (settings.conf_file, conf.paths.workspaces)]
    found = [(key, path, rights) for key, path, rights in found if "write" in rights or _is_reachable(path)]
    found += [(key, path, _find_rights(path)) for key, path in _list_secret_files(settings)]
    reason = "every user of this machine may {} it; take that away: chmod o-rwx"
    return [
        FileWarning("open_to_others", path, key, reason.format(" and ".join(rights)))
        for key, path, rights in found
        if rights
    ]


def _list_secret_files(settings: Settings) -> Iterator[tuple[str, Path]]:
    """Yield the secret files of proxy.conf, each with its key."""
    for key, setting in list_conf_secrets(settings.written):
        if isinstance(setting, SecretReference) and setting.kind == "file":
            yield key, settings.conf_file.parent / setting.name


def _find_rights(path: Path) -> tuple[str, ...]:
    mode = _read_mode(path)
    return tuple(name for name, bit in (("read", stat.S_IROTH), ("write", stat.S_IWOTH)) if mode & bit)


def _is_reachable(path: Path) -> bool:
    return all(_read_mode(folder) & stat.S_IXOTH for folder in path.resolve().parents)


def _read_mode(path: Path) -> int:
    """Return the mode of a file, 0 where there is none."""
    try:
        return path.stat().st_mode
    except OSError:
        return 0
