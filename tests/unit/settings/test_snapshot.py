"""Workers build the settings of their supervisor from one file, in which no secret can be read.

``LiveSettings`` checks after its looks that workers have the same settings, whatever happens to the files.
"""

import stat
from pathlib import Path

import pytest
from rig.canaries import Canaries
from rig.settings_files import edit, write_files

from addon.settings.egress_proxy import parse_proxy
from addon.settings.errors import SettingsError
from addon.settings.sealed_secrets import MasterKeys, make_master_key
from addon.settings.secrets import KEY_VARIABLE
from addon.settings.settings import Settings, SettingsFiles
from addon.settings.snapshot import Snapshot, SnapshotSettings

KEY = make_master_key()
SECRETS = {
    "an environment variable": "canary-of-the-environment-0123456789",
    "a file": "canary-of-a-secret-file-0123456789",
    "a sealed token": "canary-of-a-sealed-token-0123456789",
    "a URL in proxy.conf": "canary-of-the-redis-url-0123456789",
}
PROXY_URL = "http://user:canary-of-a-proxy-0123456789@proxy.internal:3128"


class Pair:
    """The files of a supervisor, and the snapshot that its workers read."""

    def __init__(self, folder: Path) -> None:
        self.conf_file = write_files(folder)
        self.file = folder / "snapshot"
        master_key = make_master_key()
        self.env = {KEY_VARIABLE: master_key, "OPENAI_KEY": SECRETS["an environment variable"]}
        (folder / "acme.secret").write_text(SECRETS["a file"])
        (folder / "proxy.url").write_text(PROXY_URL)
        sealed = MasterKeys(master_key).seal(SECRETS["a sealed token"])
        byok = '[byok.OPENAI]\nsecret = "file:../../acme.secret"\n'
        edit(folder / "policies/workspaces/acme.toml", "", f'{byok}[byok.GROQ]\nsecret = "sealed:{sealed}"\n')
        redis_url = f"redis://:{SECRETS['a URL in proxy.conf']}@127.0.0.1:6379/0"
        edit(
            self.conf_file, "", f'[state]\nredis_url = "{redis_url}"\n[upstream]\nproxy = "file:proxy.url"\n'
        )
        self.files = SettingsFiles(self.conf_file, self.env)
        self.settings = self.files.load()
        self.conf = self.files.built_from().shared_files[self.conf_file]
        self.now_s = 0.0
        self.write()

    def write(self, settings: Settings | None = None) -> None:
        Snapshot.of(settings or self.settings, self.files.built_from(), self.conf).write(self.file, KEY)

    def follow(self) -> Settings:
        """Apply edits as the supervisor does, and write the snapshot."""
        for _ in range(2):
            self.now_s += 0.5
            self.settings = self.files.look(self.now_s, self.settings.conf)
        self.write()
        return self.settings

    def worker(self) -> SnapshotSettings:
        return SnapshotSettings(self.file, KEY, self.env)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_a_worker_has_the_settings_of_its_supervisor_with_every_secret(pair: Pair) -> None:
    settings = pair.worker().load()
    assert settings == pair.settings
    assert settings.egress_proxy == parse_proxy(PROXY_URL)
    secrets = [byok.secret for byok in settings.workspaces["acme"].byok.values()]
    assert [one.get_secret_value() for one in secrets if one] == [
        SECRETS["a file"],
        SECRETS["a sealed token"],
    ]


def test_a_worker_reads_no_file_but_the_snapshot(pair: Pair) -> None:
    for file in [*pair.conf_file.parent.rglob("*.*")]:
        if file.is_file() and file != pair.file:
            file.write_text("no settings")
    assert pair.worker().load() == pair.settings


def test_only_its_owner_may_read_a_snapshot_also_once_it_is_replaced(pair: Pair) -> None:
    for _ in range(2):
        assert stat.S_IMODE(pair.file.stat().st_mode) == 0o600
        pair.write()


@pytest.mark.parametrize("secret", [*SECRETS.values(), PROXY_URL], ids=[*SECRETS, "the URL of a proxy"])
def test_no_secret_is_in_a_snapshot(pair: Pair, secret: str) -> None:
    text = pair.file.read_bytes()
    assert not Canaries({"secret": secret}).found_in(text)
    assert b"workspaces" not in text


def test_options_of_the_command_line_hold_in_workers(pair: Pair) -> None:
    settings = pair.settings.with_listen(host="::1", port=7, workers=3)
    pair.write(settings)
    assert pair.worker().load() == settings


def test_sections_that_need_a_restart_stay_as_the_gateway_started_with_them(pair: Pair) -> None:
    edit(pair.conf_file, "port = 9000", "port = 9001")
    settings = pair.follow()
    assert pair.worker().load() == settings
    assert (settings.conf.listen.port, settings.written.listen.port) == (9000, 9001)


def test_a_worker_tries_each_snapshot_once(pair: Pair) -> None:
    worker = pair.worker()
    assert worker.is_changed
    worker.load()
    assert not worker.is_changed
    pair.write()
    assert worker.is_changed
    pair.file.write_text("torn")
    with pytest.raises(SettingsError):
        worker.load()
    assert not worker.is_changed


def test_a_new_snapshot_builds_again_only_what_it_changes(pair: Pair) -> None:
    worker = pair.worker()
    before = worker.load()
    pair.write()
    assert worker.load().workspaces["acme"] is before.workspaces["acme"]
    edit(pair.conf_file.parent / "policies/workspaces/acme.toml", '"Acme"', '"Emca"')
    pair.follow()
    after = worker.load()
    assert after.workspaces["acme"].name == "Emca"
    assert after.models is before.models


def test_a_renewed_secret_file_reaches_a_worker(pair: Pair) -> None:
    worker = pair.worker()
    worker.load()
    (pair.conf_file.parent / "acme.secret").write_text("canary-that-was-renewed")
    assert worker.load() == pair.settings
    assert worker.load() != pair.follow()
    assert worker.load() == pair.settings


def _cut(text: bytes) -> bytes:
    return text[: len(text) // 2]


def _of_another_format(sealed: bytes) -> bytes:
    text = MasterKeys(KEY).unseal(sealed.decode())
    assert text.startswith('{"format":3,')
    return MasterKeys(KEY).seal(text.replace('"format":3', '"format":4', 1)).encode()


def _of_another_run(sealed: bytes) -> bytes:
    return MasterKeys(make_master_key()).seal(MasterKeys(KEY).unseal(sealed.decode())).encode()


NOT_WHOLE = "is not a whole snapshot of this run of the gateway"
REFUSED = {
    "torn": (_cut, NOT_WHOLE),
    "empty": (lambda _: b"", NOT_WHOLE),
    "changed": (lambda text: text[:-9] + b"AAAAAAAA=", NOT_WHOLE),
    "no text": (lambda _: b"\xff\xfe", NOT_WHOLE),
    "of another run": (_of_another_run, NOT_WHOLE),
    "of another version": (
        _of_another_format,
        "is a snapshot of another version of the gateway; restart the gateway",
    ),
}


@pytest.mark.parametrize(("change", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_snapshot_that_is_not_whole_or_not_ours_is_refused(pair: Pair, change, reason: str) -> None:
    pair.file.write_bytes(change(pair.file.read_bytes()))
    with pytest.raises(SettingsError) as refused:
        pair.worker().load()
    assert str(refused.value) == f"{pair.file}: {reason}"


def test_a_missing_snapshot_is_refused(pair: Pair) -> None:
    pair.file.unlink()
    with pytest.raises(SettingsError, match="snapshot: No such file or directory"):
        pair.worker().load()
