"""A gateway's settings over real files, with a clock of the test's own."""

from pathlib import Path

from addon.settings.sealed_secrets import make_master_key
from addon.settings.settings import Settings, SettingsFiles
from addon.settings.snapshot import Snapshot, SnapshotSettings
from addon.settings.watcher import describe_problems
from policies.model import Workspace
from rig.settings_files import CONF, edit

LOOK_S = 0.5
SNAPSHOT_KEY = make_master_key()


class LiveSettings:
    """The files of one gateway and its settings. A test decides when the gateway looks at the files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"OPENAI_KEY": "sk-obviously-fake"}
        self.now_s = 100.0
        self.start()

    def start(self) -> Settings:
        """Start, or restart with an empty memory."""
        self.files = SettingsFiles(self.folder / CONF, self.env)
        self.settings = self.files.load()
        self.started_with = self.settings.conf
        self.conf = self.files.built_from().shared_files[self.folder / CONF]
        self.worker = self.new_worker()
        return self.after(2)

    def after(self, looks: int) -> Settings:
        """Return the settings after so many looks, half a second apart. Check that workers have the same."""
        for _ in range(looks):
            self.now_s += LOOK_S
            self.settings = self.files.look(self.now_s, self.started_with)
            self.files.keep()
        self.check_workers()
        return self.settings

    def new_worker(self) -> SnapshotSettings:
        """Return the settings of a worker that starts now."""
        return SnapshotSettings(self.folder / "snapshot", SNAPSHOT_KEY, self.env)

    def check_workers(self) -> None:
        """Check that workers have the same settings, whether they ran before or start now."""
        Snapshot.of(self.settings, self.files.built_from(), self.conf).write(
            self.folder / "snapshot", SNAPSHOT_KEY
        )
        assert self.worker.load() == self.settings
        assert self.new_worker().load() == self.settings

    def edit(self, name: str, old: str, new: str) -> None:
        edit(self.folder / name, old, new)

    def write(self, name: str, text: str) -> None:
        """Write a file in place, not atomically."""
        (self.folder / name).write_text(text, encoding="utf-8")

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    @property
    def problems(self) -> str:
        """The problems as /readyz reports them, "" when all files load."""
        return describe_problems(self.settings.problems) or ""

    @property
    def acme(self) -> Workspace:
        return self.settings.workspaces["acme"]

    def find_owner(self, key_hash: str) -> str | None:
        """Return the workspace that an active key belongs to."""
        found = self.settings.keys.get(key_hash)
        return found.workspace.id if found and found.key.active else None
