"""The last good texts are saved for the next start, and are in memory in any case."""

from pathlib import Path

import pytest
from rig.live_settings import LiveSettings
from rig.settings_files import ACME

from addon.settings.last_good import LastGood

BYOK = '[byok.OPENAI]\nsecret = "file:../../acme.secret"\nrouting = true\n'


def test_a_last_good_text_is_saved_unchanged_for_its_owner_only(live: LiveSettings) -> None:
    (live.folder / "acme.secret").write_text("sk-obviously-fake-too")
    live.edit(ACME, "", BYOK)
    live.after(2)
    good = live.text(ACME)
    live.write(ACME, "broken")
    live.after(2)
    folder = live.folder / "var/last-good"
    saved = folder / "acme.toml"
    assert saved.read_text() == good
    assert (folder.stat().st_mode & 0o777, saved.stat().st_mode & 0o777) == (0o700, 0o600)
    assert sorted(file.name for file in folder.iterdir()) == ["acme.toml", "beta.toml"]


def test_a_text_that_can_not_be_saved_is_in_memory(live: LiveSettings) -> None:
    kept = live.folder / "var/last-good"
    for file in kept.iterdir():
        file.unlink()
    kept.rmdir()
    kept.write_text("no folder")
    live.edit(ACME, '"Acme"', '"Emca"')
    for _ in range(2):
        with pytest.raises(OSError):
            live.after(2)
    assert live.acme.name == "Emca"
    live.write(ACME, "broken")
    with pytest.raises(OSError):
        live.after(2)
    assert live.acme.name == "Emca"
    kept.unlink()
    live.after(1)
    live.start()
    assert live.acme.name == "Emca"


def test_a_saved_text_that_does_not_load_is_ignored(live: LiveSettings) -> None:
    (live.folder / "var/last-good/acme.toml").write_text("")
    live.write(ACME, "broken")
    live.start()
    assert "acme" not in live.settings.workspaces
    [problem] = live.settings.problems
    assert problem.consequence == "workspace acme is not served"


def test_a_newer_text_of_another_process_is_never_replaced(tmp_path: Path) -> None:
    ours, revoked = LastGood(tmp_path), LastGood(tmp_path)
    ours.take("acme", b"first")
    ours.keep()
    revoked.write("acme", b"a key is revoked")
    ours.take("acme", b"second, with the key")
    ours.keep()
    assert (tmp_path / "acme.toml").read_bytes() == b"a key is revoked"
    assert ours.look(["acme"])
    assert ours.text("acme") == b"a key is revoked"
