"""``LoadedFile``: one workspace file as it loads by itself, whatever the others have."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from addon.settings.errors import SettingsError, join_errors
from addon.settings.parsed_text import ParsedText, describe_fault, parse_text
from addon.settings.secrets import Secrets
from addon.settings.shared_settings import SharedSettings
from addon.settings.sources import Sources
from addon.settings.workspace_builder import resolve_workspace
from policies.model import Workspace


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A workspace file with its workspace or its error, and the versions of all files that it was loaded from.

    ``error`` is not set for a key that another workspace has. ``stopgap`` is served where there is no last good text.
    """

    file: Path
    shared: SharedSettings
    versions: Mapping[Path, int]
    parsed: ParsedText | None = None
    workspace: Workspace | None = None
    error: SettingsError | None = None
    stopgap: Workspace | None = None


def load_file(
    file: Path, shared: SharedSettings, before: LoadedFile | None, env: Mapping[str, str], sources: Sources
) -> LoadedFile:
    """Load a file. Return ``before``, which it was, where nothing has changed."""
    if before and before.shared is shared and sources.is_current(before.versions):
        return before
    parsed = None
    with sources.record_versions() as versions:
        try:
            text = sources.read(file)
            known = before.parsed if before else None
            parsed = known if known and known.text == text else parse_text(file, text)
            secrets = Secrets(env, sources, shared.conf.paths.master_keys)
            workspace = resolve_workspace(parsed.served_table, file, shared, secrets)
        except Exception as error:  # noqa: BLE001  (no file of one customer may stop the others)
            found = describe_fault(error, file)
            if parsed and parsed.table and parsed.error:
                found = join_errors([*parsed.error.all, *found.all])
            return LoadedFile(file, shared, versions, parsed, error=found)
    if parsed.error:
        return LoadedFile(file, shared, versions, parsed, error=parsed.error, stopgap=workspace)
    return LoadedFile(file, shared, versions, parsed, workspace)
