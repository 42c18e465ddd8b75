"""Machines that share one set of workspace files: each has a folder of its own, and one PostgreSQL has the files."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from addon.console.changes.maker import ChangeMaker
from addon.fleet.copies import Copies, refresh
from addon.fleet.tables import FileWrite, read_files, write_files
from addon.settings.settings import SettingsFiles, load_conf
from addon.store.backends import find_ledger
from addon.store.money.ledger import LedgerPlace
from rig import settings_files
from rig.settings_files import CONF, FILES, edit

_SECTIONS = """\
[admin]
console_password = "env:CONSOLE"
[state]
backend = "redis"
[paths]
workspaces = "ledger"
[ledger]
url = "{}"

"""


class FleetMachine:
    """The files of one machine, which reaches the ledger at ``url``. Its copies are those of the ledger."""

    def __init__(self, folder: Path, url: str, env: Mapping[str, str]) -> None:
        folder.mkdir()
        self.conf_file = settings_files.write_files(folder)
        edit(folder / CONF, "[billing]", _SECTIONS.format(url) + "[billing]")
        conf = load_conf(self.conf_file)
        self.copies = Copies(conf.paths.workspaces)
        self.place = find_ledger(conf)
        self._env = env
        refresh(self.place, self.copies)

    def open_maker(self) -> ChangeMaker:
        """Return the changes of a console of this machine. Close it at the end."""
        files = SettingsFiles(self.conf_file)
        settings = files.load()
        for now_s in (1, 2):  # As a gateway, which has seen all files at rest.
            files.look(now_s, settings.conf)
        return ChangeMaker(lambda: SettingsFiles(self.conf_file, self._env).load(), files)

    def copy_of(self, workspace: str) -> str:
        """Return the text of a copy."""
        return (self.copies.folder / f"{workspace}.toml").read_text()


def put_files(place: LedgerPlace, *workspaces: str) -> None:
    """Write these workspaces of ``rig.settings_files`` to the ledger."""
    texts = {name: FILES[f"policies/workspaces/{name}.toml"] for name in workspaces}
    with place.write() as ledger:
        write_files(ledger, [FileWrite(name, text, None) for name, text in texts.items()], "tests")


def text_in(place: LedgerPlace, workspace: str) -> str:
    """Return the text of a file in the ledger."""
    with place.read() as ledger:
        return read_files(ledger)[workspace].text


def through(url: str, port: int) -> str:
    """Return the URL of the same database behind another port."""
    return url.replace(f":{urlsplit(url).port}/", f":{port}/")
