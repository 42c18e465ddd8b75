"""``Overview``: the workspaces, keys and models that settings serve; and warnings, with the files of operators."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from addon.runtime.listening import is_loopback
from addon.settings import ledger_url, redis_url
from addon.settings.common_passwords import is_common
from addon.settings.settings import Settings
from addon.settings.shared_settings import SharedSettings
from policies import settings_warnings
from policies.model import Workspace
from policies.settings_warnings import SettingsWarning, WarningKind, find_warnings


@dataclass(frozen=True, slots=True)
class Overview:
    """The numbers of one set of settings.

    ``platform_models`` and ``own_key_models`` count the active models by provider: those that platform keys serve, and
    those that only customers' own keys serve.
    """

    fingerprint: str
    workspaces: int
    keys: int
    active_keys: int
    platform_models: Counter[str]
    own_key_models: Counter[str]

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the numbers of ``settings`` now."""
        now = datetime.now(UTC)
        keys = [key for workspace in settings.workspaces.values() for key in workspace.keys]
        active = [model for model in settings.models.values() if model.active]
        return cls(
            fingerprint=settings.fingerprint,
            workspaces=len(settings.workspaces),
            keys=len(keys),
            active_keys=sum(key.why_refused(now) is None for key in keys),
            platform_models=Counter(model.provider.name for model in active if not model.needs_own_key),
            own_key_models=Counter(model.provider.name for model in active if model.needs_own_key),
        )


@dataclass(frozen=True, slots=True)
class FileWarning:
    """A warning about a file that loads. ``str`` is one line: file, dotted key (may be empty), reason."""

    kind: WarningKind
    file: Path
    key: str
    reason: str

    def __str__(self) -> str:
        return ": ".join(part for part in (str(self.file), self.key, self.reason) if part)


def find_file_warnings(settings: Settings) -> list[FileWarning]:
    """Return all warnings about ``settings`` now, each with its file."""
    catalog, now = (settings.providers, settings.models), datetime.now(UTC)
    workers = settings.conf.listen.workers
    found = find_warnings(*catalog, settings.workspaces, now, settings.unknown_hidden, workers)
    if settings.problems:  # A file that does not load may hold the keys, and its own error says what to do.
        found = [one for one in found if one.kind != "no_active_key"]
    warnings = _name_files(found, settings)
    if settings.conf.alerts.webhook and settings.alert_target is None:
        reason = "an environment variable that it names is not set, so no alert is sent"
        warnings.append(FileWarning("alerts_unset", settings.conf_file, "alerts", reason))
    bare = "holds a password, which anyone who reads the file sees; keep the URL as env:NAME or file:PATH"
    if redis_url.has_bare_password(settings.written.state.redis_url):
        warnings.append(FileWarning("redis_password_bare", settings.conf_file, "state.redis_url", bare))
    if ledger_url.has_bare_password(settings.written.ledger.url):
        warnings.append(FileWarning("ledger_password_bare", settings.conf_file, "ledger.url", bare))
    if closed := find_closed_reason(settings):
        warnings.append(FileWarning("console_closed", settings.conf_file, "admin.console_password", closed))
    password = settings.console_password and settings.console_password.secret
    if password and is_common(password.get_secret_value()):
        reason = "the password is one of the commonest; choose one that no word list has"
        warnings.append(
            FileWarning("console_password_common", settings.conf_file, "admin.console_password", reason)
        )
    return warnings


def find_new_warnings(
    shared: SharedSettings, before: Workspace | None, after: Workspace, in_use: Settings
) -> list[FileWarning]:
    """Return the warnings that the change of one workspace brings, next to the others ``in_use``."""
    others = [one for one in in_use.workspaces.values() if one.id != after.id]
    found = settings_warnings.find_new_warnings(shared.models, others, before, after, datetime.now(UTC))
    if in_use.problems:
        found = [one for one in found if one.kind != "no_active_key"]
    return _name_files(found, in_use)


def find_closed_reason(settings: Settings) -> str | None:
    """Return why the console is served to no one, as far as proxy.conf decides that; None when it is served."""
    password = settings.console_password
    if password and password.fault:
        return f"{password.fault}, so the console is closed"
    if password is None and not is_loopback(settings.conf.admin.host):
        return "is empty and host is not loopback, so the console is closed; set a password to use it there"
    return None


def _name_files(found: Sequence[SettingsWarning], settings: Settings) -> list[FileWarning]:
    files: dict[tuple[str, str], Path] = {}
    for one in found:
        if (one.place, one.name) not in files:
            files[one.place, one.name] = _find_file(one, settings)
    return [FileWarning(one.kind, files[one.place, one.name], one.key, one.reason) for one in found]


def _find_file(warning: SettingsWarning, settings: Settings) -> Path:
    paths = settings.conf.paths
    match warning.place:
        case "workspaces":
            return paths.workspaces
        case "workspace":
            return paths.workspaces / f"{warning.name}.toml"
        case "providers":
            return settings.provider_files.get(warning.name, paths.catalog / "providers.toml")
        case "models":
            return (paths.catalog_overlay or paths.catalog) / "models.toml"
