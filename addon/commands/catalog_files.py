"""The files that ``tollgate catalog add``, ``price`` and ``update`` write. Source: docs/catalog.md."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from addon.commands.auditing import CommandRecord
from addon.commands.errors import report_errors
from addon.edits.diff import make_diff
from addon.edits.recording import ChangeRecord, file_evidence
from addon.runtime.atomic_files import replace_unchanged
from addon.runtime.folder_lock import locked
from addon.settings.conf_schema import Paths
from addon.settings.file_content import decode_text
from addon.settings.settings import Settings, SettingsFiles
from addon.settings.sources import Sources
from addon.settings.value_types import SHIPPED_CATALOG

MODELS = "models.toml"


def is_for_upgrades(paths: Paths, conf_file: Path) -> bool:
    """Return whether the catalog is the shipped one, which upgrades replace, and the conf is not next to it."""
    in_checkout = conf_file.absolute().parent.resolve() == SHIPPED_CATALOG.parent
    return paths.catalog.resolve() == SHIPPED_CATALOG and (not in_checkout or bool(paths.catalog_overlay))


@contextmanager
def edited_models(conf_file: Path, folder: Path) -> Iterator["ModelsFile"]:
    """Lock a folder and give its models.toml. Turn errors into one line."""
    with report_errors(), locked(folder):
        file = ModelsFile(conf_file, folder / MODELS)
        try:
            yield file
        except ValueError as error:
            raise click.ClickException(f"{file.path}: {error}") from None


class ModelsFile:
    """A models.toml, in the catalog or in its overlay. A missing one is empty. Raises OSError, ``SettingsError``."""

    def __init__(self, conf_file: Path, path: Path) -> None:
        self._conf_file = conf_file
        self.path = path
        self._before = Sources().read(path) if path.exists() else None
        self.text = "" if self._before is None else decode_text(self._before, path)

    def write(self, text: str, action: str, summary: str) -> Settings:
        """Write the file, if the settings then load and no other program changed it, with its audit line.

        Return those settings.
        """
        loaded = SettingsFiles(self._conf_file, overlay={self.path: text}).load()
        lines = [summary, *map(str, make_diff(self.text, text))]
        evidence = file_evidence(self.path, self._before, text)
        record = CommandRecord(loaded.conf, action)
        with record(ChangeRecord("\n".join(lines), evidence)):
            replace_unchanged(self.path, text, self._before)
        return loaded


def find_edited_folder(paths: Paths, conf_file: Path) -> Path:
    """Return the folder whose models.toml is edited: the overlay if there is one, else the catalog.

    Raises ``ClickException`` where that is the shipped one.
    """
    if paths.catalog_overlay is None and is_for_upgrades(paths, conf_file):
        raise refuse_shipped(conf_file)
    return paths.catalog_overlay or paths.catalog


def refuse_shipped(conf_file: Path) -> click.ClickException:
    """Return the error of an edit that would change the shipped catalog of another folder."""
    return click.ClickException(
        f"the catalog is the shipped one, which an upgrade replaces; set [paths] catalog_overlay in {conf_file}"
    )
