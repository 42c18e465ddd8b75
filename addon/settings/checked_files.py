"""All files of operators, checked as ``serve`` would load them. Nothing is written.

``serve`` needs the shared settings before it reads a workspace. Here each file is checked as far as it does not depend
on another file that does not load.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from addon.settings.builder import BuiltSettings
from addon.settings.errors import ErrorList, SettingsError
from addon.settings.parsed_text import parse_text
from addon.settings.secrets import Secrets
from addon.settings.settings import Settings, SettingsFiles, make_settings
from addon.settings.shared_settings import SharedSettings, try_shared_settings
from addon.settings.sources import Sources
from addon.settings.workspace_builder import resolve_workspace


class CheckedFiles(NamedTuple):
    """The settings in the files, None where proxy.conf or the catalog does not load, and all errors.

    ``files`` are those that were read, without files of secrets.
    """

    settings: Settings | None
    errors: tuple[SettingsError, ...]
    files: tuple[Path, ...]


def check_files(conf_file: Path, env: Mapping[str, str]) -> CheckedFiles:
    """Load all files, and find all their errors."""
    files = SettingsFiles(conf_file, env)
    try:
        settings = files.load()
    except SettingsError:
        return _check_each(conf_file, env)
    return CheckedFiles(settings, files.errors, tuple(sorted(files.texts)))


def _check_each(conf_file: Path, env: Mapping[str, str]) -> CheckedFiles:
    """Check proxy.conf, the catalog and each workspace by itself."""
    sources, errors = Sources(), ErrorList()
    settings = None
    with sources.record_versions():
        attempt = try_shared_settings(conf_file, env, sources)
    for error in attempt.errors:
        errors.add(error)
    if attempt.conf:
        folder = attempt.conf.paths.workspaces
        if folder.parent.is_dir() and not folder.exists():
            # ``serve`` makes this folder.
            if attempt.shared and not errors.found:
                settings = make_settings(BuiltSettings(attempt.shared, {}, (), attempt.shared.digest))
        else:
            for error in _check_workspaces(folder, attempt.shared, env, sources):
                errors.add(error)
    return CheckedFiles(settings, tuple(errors.found), tuple(sorted(sources.texts)))


def _check_workspaces(
    folder: Path, shared: SharedSettings | None, env: Mapping[str, str], sources: Sources
) -> Iterator[SettingsError]:
    try:
        files = sources.list_toml(folder)
    except SettingsError as error:
        yield error
        return
    for file in files:
        try:
            parsed = parse_text(file, sources.read(file))
            if parsed.error:
                yield parsed.error
            if shared and parsed.table:
                secrets = Secrets(env, sources, shared.conf.paths.master_keys)
                resolve_workspace(parsed.table, file, shared, secrets)
        except SettingsError as error:
            yield error
