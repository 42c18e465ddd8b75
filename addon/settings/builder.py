"""From what the files say to one set: the base, each workspace by itself, and what is wrong with which file.

A file that does not load changes nothing but what is said of it. Nothing is parsed or resolved again while what it was
made of is the same. Source: docs/configuration.md, "Edits".
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from addon.settings.base import Base, load_base
from addon.settings.files import SettingsError
from addon.settings.files_schema import ProxyConf, WorkspaceTable
from addon.settings.last_good import LastGood
from addon.settings.secrets import Secrets
from addon.settings.sources import Sources
from addon.settings.workspace import parse_workspace, resolve_last_good, resolve_workspace, same_hash
from policies.key_claims import SettledClaims, settle_claims
from policies.model import Workspace


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that does not load: its fault, and what that means. ``str`` is one line: file, dotted key, reason.

    ``workspace`` is the only one that the file concerns, None where it concerns all.
    """

    file: Path
    key: str
    reason: str
    consequence: str
    workspace: str | None = None

    def __str__(self) -> str:
        return str(SettingsError(self.file, self.key, self.reason))


@dataclass(frozen=True, slots=True)
class Built:
    """A set to serve on. ``workspaces`` are by id; ``digest`` changes with any text that it was made of."""

    base: Base
    workspaces: Mapping[str, Workspace]
    problems: tuple[Problem, ...]
    digest: bytes


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A text of a workspace file, and its table or its fault."""

    said: bytes
    table: WorkspaceTable | None = None
    fault: SettingsError | None = None
    hashes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Seen:
    """One workspace file: what became of it, and what that was made of. ``fault`` is its own, not a contested key."""

    file: Path
    base: Base
    asked: Mapping[Path, int]
    parsed: _Parsed | None = None
    workspace: Workspace | None = None
    fault: SettingsError | None = None


class Builder:
    """Builds one set after another from the same sources."""

    def __init__(self, conf_file: Path, env: Mapping[str, str], sources: Sources) -> None:
        self._conf_file = conf_file
        self._env = env
        self._sources = sources
        self._running: ProxyConf | None = None
        self._base: Base | None = None
        self._base_asked: Mapping[Path, int] = {}
        self._base_fault: SettingsError | None = None
        self._is_base_tried = False
        self._seen: dict[str, _Seen] = {}
        self._old_texts: dict[str, _Parsed] = {}
        self._served: dict[str, Workspace] = {}
        self._broken: frozenset[str] = frozenset()
        self._last_good: LastGood | None = None

    @property
    def last_good(self) -> LastGood:
        """The last good texts. A base must have loaded: it says where they are."""
        assert self._last_good  # noqa: S101
        return self._last_good

    def look_at_last_good(self) -> bool:
        """Return whether another process has changed the last good text of a workspace whose file is broken."""
        return self.last_good.look(self._broken)

    def build(self, running: ProxyConf | None = None) -> Built:
        """Return the set that the files make now. Raises ``SettingsError`` where there is none, not even an older one.

        ``running`` is as for ``load_base``.
        """
        base = self._find_base(running)
        problems = []
        if self._base_fault:
            problems.append(_problem(self._base_fault, "the settings do not load, the last good ones stay"))
        try:
            files = self._sources.list_toml(base.conf.paths.workspaces)
        except SettingsError as error:
            if not self._seen:
                raise
            files = []
            problems.append(_problem(error, "no workspace is served"))
        self._seen = {file.stem: self._see(file, base) for file in files}
        self._forget()
        digests, faults = self._serve()
        self._broken = frozenset(faults)
        problems += [self._problem_of(name, fault) for name, fault in sorted(faults.items())]
        digest = sha256(base.digest + b"".join(digests)).digest()
        return Built(base, dict(self._served), tuple(problems), digest)

    def _forget(self) -> None:
        asked = set(self._base_asked).union(*(seen.asked for seen in self._seen.values()))
        self._sources.forget_others(asked)
        self.last_good.forget_others(self._seen)
        self._old_texts = {name: old for name, old in self._old_texts.items() if name in self._seen}

    # The base.

    def _find_base(self, running: ProxyConf | None) -> Base:
        is_same = self._is_base_tried and running is self._running
        if self._base and is_same and self._sources.is_current(self._base_asked):
            return self._base
        self._running, before, self._is_base_tried = running, self._base_asked, False
        fault = self._base_fault = self._try_base()
        if fault and self._sources.revert(self._base_asked):
            # What was read in motion is used only if it loads.
            self._try_base()
        if fault:
            self._base_asked = {**before, **self._base_asked}
        self._is_base_tried = True
        if self._base is None:
            raise fault or AssertionError("there is a base, or a fault")
        if self._last_good is None:
            self._last_good = LastGood(self._base.conf.paths.database.with_name("last-good"))
        return self._base

    def _try_base(self) -> SettingsError | None:
        with self._sources.tracing() as self._base_asked:
            try:
                self._base = load_base(self._conf_file, self._env, self._sources, self._running)
            except SettingsError as error:
                return error
        return None

    # Each workspace by itself.

    def _see(self, file: Path, base: Base) -> _Seen:
        before = self._seen.get(file.stem)
        if before and before.base is base and self._sources.is_current(before.asked):
            return before
        parsed = None
        with self._sources.tracing() as asked:
            try:
                said = self._sources.read(file)
                known = before.parsed if before else None
                parsed = known if known and known.said == said else _parse(file, said)
                workspace = self._resolve(parsed, file, base)
            except Exception as error:  # noqa: BLE001  (whatever is in the file of one customer stops no other)
                return _Seen(file, base, asked, parsed, fault=_fault_of(error, file))
        return _Seen(file, base, asked, parsed, workspace)

    def _resolve(self, parsed: _Parsed, file: Path, base: Base) -> Workspace:
        if parsed.table is None:
            raise parsed.fault or AssertionError("there is a table, or a fault")
        return resolve_workspace(parsed.table, file, base, Secrets(self._env, self._sources))

    def _find_old(self, name: str) -> _Parsed | None:
        """Return the last good text of a workspace."""
        said = self.last_good.text(name)
        if said is None:
            return None
        seen = self._seen[name]
        if seen.parsed and seen.parsed.said == said:
            return seen.parsed
        old = self._old_texts.get(name)
        if old is None or old.said != said:
            old = self._old_texts[name] = _parse(seen.file, said)
        return old if old.table else None

    # All of them together.

    def _serve(self) -> tuple[list[bytes], dict[str, SettingsError]]:
        """Set what is served; return the digests of its texts, and the fault of each file that is broken."""
        settled = settle_claims({name: self._claims_of(name) for name in self._seen}, self._had)
        faults = self._faults_of(settled)
        served, digests = {}, []
        for name, seen in self._seen.items():
            text = seen.parsed if seen.workspace and name not in settled.gave_way else self._find_old(name)
            if text is None or text.table is None:
                continue
            if text is seen.parsed and seen.workspace:
                workspace = seen.workspace
            else:
                workspace = self._resolve_old(text.table, seen)
            keys = tuple(key for key in workspace.keys if (name, key.hash) not in settled.refused)
            served[name] = replace(workspace, keys=keys) if len(keys) < len(workspace.keys) else workspace
            digests.append(b"%s\0%s" % (name.encode(), sha256(text.said).digest()))
            if name not in faults:
                self.last_good.take(name, text.said)
        self._served = served
        return digests, faults

    def _resolve_old(self, table: WorkspaceTable, seen: _Seen) -> Workspace:
        secrets = Secrets(self._env, self._sources)
        return resolve_last_good(table, seen.file, seen.base, secrets, self._served.get(seen.file.stem))

    def _faults_of(self, settled: SettledClaims) -> dict[str, SettingsError]:
        faults = {name: seen.fault for name, seen in self._seen.items() if seen.fault}
        contests = dict(settled.gave_way)
        for (name, key_hash), other in settled.refused.items():
            contests.setdefault(name, (key_hash, other))
        for name, (key_hash, other) in contests.items():
            faults.setdefault(name, self._contest(name, key_hash, other))
        return faults

    def _contest(self, name: str, key_hash: str, other: str) -> SettingsError:
        (index, _), (_, other_id) = self._find_key(name, key_hash), self._find_key(other, key_hash)
        return same_hash(self._seen[name].file, index, other_id, other)

    def _find_key(self, name: str, key_hash: str) -> tuple[int, str]:
        """Return the place and the id of a key that a workspace's file claims, or its last good text."""
        for text in (self._seen[name].parsed, self._find_old(name)):
            keys = text.table.keys if text and text.table else ()
            for index, key in enumerate(keys):
                if key.hash == key_hash:
                    return index, key.id
        raise AssertionError("only what claims a hash contests it")

    def _claims_of(self, name: str) -> tuple[str, ...]:
        seen = self._seen[name]
        return seen.parsed.hashes if seen.parsed and seen.workspace else self._had(name) or ()

    def _had(self, name: str) -> tuple[str, ...] | None:
        old = self._find_old(name)
        return old.hashes if old else None

    def _problem_of(self, name: str, fault: SettingsError) -> Problem:
        seen = self._seen[name]
        if name not in self._served:
            return _problem(fault, f"workspace {name} is not served", name)
        if seen.fault is None and self._find_old(name) is None:
            return _problem(fault, f"the key is refused to workspace {name}", name)
        return _problem(fault, f"workspace {name} keeps its last good settings", name)


def _parse(file: Path, said: bytes) -> _Parsed:
    try:
        table = parse_workspace(file, said)
    except Exception as error:  # noqa: BLE001  (as above)
        return _Parsed(said, fault=_fault_of(error, file))
    return _Parsed(said, table, hashes=tuple(key.hash for key in table.keys))


def _fault_of(error: Exception, file: Path) -> SettingsError:
    """Return what is said of a file that ``error`` came of. The words of an unknown one may hold a secret."""
    if isinstance(error, SettingsError):
        return error
    return SettingsError(file, "", f"can't be loaded: {type(error).__name__}")


def _problem(fault: SettingsError, consequence: str, workspace: str | None = None) -> Problem:
    return Problem(fault.file, fault.key, fault.reason, consequence, workspace)
