"""An edited file is checked next to all others as a load of all files would find it, and nearly no other is parsed."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from rig.large import sampled
from rig.live_settings import LiveSettings
from rig.settings_files import ACME, BETA, CONF, HASH_A, HASH_B, edit, replace

from addon.settings.errors import SettingsError
from addon.settings.file_content import _read_once
from addon.settings.settings import SettingsFiles
from addon.settings.workspace_builder import parse_workspace

FOLDER = "policies/workspaces"
MANY = 40
NEW = f'name = "Beta"\n[[keys]]\nid = "ci"\nhash = "sha256:{HASH_B}"\nlabel = "new"\n'
KEY = '[[keys]]\nid = "{}"\nhash = "sha256:{}"\n'
ESCAPED = KEY.format("other", r"\u0061" + 63 * "a")


def touch(file: Path) -> None:
    replace(file, file.read_text())


def break_acme(live: LiveSettings) -> None:
    """Break a file whose last good text has the hash A."""
    live.edit(ACME, '"pro"', '"gold"')
    live.after(2)


def move_behind_a_link(live: LiveSettings) -> None:
    """Replace the folder by a link to another folder, as Kubernetes does for each version of its files."""
    folder = live.folder / FOLDER
    shutil.copytree(folder, live.folder / "version-1")
    shutil.rmtree(folder)
    folder.symlink_to(live.folder / "version-1")
    live.after(2)
    shutil.copytree(live.folder / "version-1", live.folder / "version-2")
    edit(live.folder / "version-2" / "acme.toml", HASH_A, "d" * 64)
    folder.unlink()
    folder.symlink_to(live.folder / "version-2")


# What happens to the files before the edit, and what the edited file claims then.
STATES: dict[str, Callable[[LiveSettings], object]] = {
    "nothing": lambda _: None,
    "other bytes of another file": lambda live: live.edit(ACME, '"Acme"', '"ACME"'),
    "a file that was written again": lambda live: touch(live.folder / ACME),
    "a broken file": break_acme,
    "a broken file that the gateway has not seen": lambda live: live.edit(ACME, '"pro"', '"gold"'),
    "a deleted file": lambda live: (live.folder / ACME).unlink(),
    "a new file with the hash of another": lambda live: live.write(
        f"{FOLDER}/aaa.toml", f'name = "A"\n{KEY.format("x", HASH_A)}'
    ),
    "a new file with the hash of the edited one": lambda live: live.write(
        f"{FOLDER}/aaa.toml", f'name = "A"\n{KEY.format("x", HASH_B)}'
    ),
    "a file that takes the hash of the edited one": lambda live: live.edit(ACME, "c" * 64, HASH_B),
    "a hash that two files already claim": lambda live: (live.edit(ACME, "c" * 64, HASH_B), live.after(2)),
    "a new file with an escaped hash": lambda live: (
        (live.folder / ACME).unlink(),
        live.write(f"{FOLDER}/aaa.toml", f'name = "A"\n{ESCAPED}'),
    ),
    "a hash that another file has dropped": lambda live: live.edit(ACME, HASH_A, "d" * 64),
    "a hash in a comment": lambda live: live.edit(
        ACME, f'"sha256:{HASH_A}"', f'"sha256:{"d" * 64}"  # {HASH_A}'
    ),
    "a link to another folder": move_behind_a_link,
}
TEXTS = {
    "the same key": NEW,
    "a key of another file": NEW.replace(HASH_B, HASH_A),
    "two keys of another file": NEW.replace(HASH_B, HASH_A) + KEY.format("two", "c" * 64),
    "an unknown model": f'default_model = "gone"\n{NEW}',
    "two errors": f'default_model = "gone"\nplan = "gold"\n{NEW}',
    "no TOML": "name = ",
}


@sampled(every=4)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("happens", STATES.values(), ids=STATES)
def test_an_edited_file_is_as_a_load_of_all_files_finds_it(
    live: LiveSettings, happens: Callable[[LiveSettings], object], text: str
) -> None:
    happens(live)
    file, conf = live.folder / BETA, live.folder / CONF
    whole = SettingsFiles(conf, live.env, overlay={file: text})
    expected = whole.load().workspaces.get("beta")
    errors = [str(error) for error in whole.errors if error.file == file]
    for files in (live.files, SettingsFiles(conf, live.env)):
        checked = files.fork({file: text}).check_workspace(file)
        assert [str(error) for error in (checked.error.all if checked.error else ())] == errors
        assert checked.workspace == (None if errors else expected)


def count(work: Callable[[], object]) -> tuple[int, int]:
    """Return how many workspace files are parsed, and how many files are read, within ``work``."""
    counted = dict.fromkeys([parse_workspace.__code__, _read_once.__code__], 0)

    def note(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call" and frame.f_code in counted:
            counted[frame.f_code] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    parsed, read = counted.values()
    return parsed, read


@pytest.fixture
def many(live: LiveSettings) -> LiveSettings:
    """A gateway with many workspaces, which has read them all."""
    for number in range(MANY):
        key = KEY.format("ci", f"{number:064x}")
        live.write(f"{FOLDER}/many-{number}.toml", f'name = "{number}"\n{key}')
    live.after(6)
    return live


def test_a_gateway_reads_no_other_file_for_an_edit(many: LiveSettings) -> None:
    file = many.folder / BETA

    def check(text: str) -> tuple[int, int]:
        return count(lambda: many.files.fork({file: text}).check_workspace(file))

    with_key = NEW + KEY.format("new", "f" * 64)
    assert count(lambda: many.files.fork().check_workspace(file)) == (0, 0)
    assert (check(NEW), check(with_key)) == ((1, 0), (1, 0))
    # A new key is searched in the files that changed since the gateway read them.
    many.edit(ACME, '"Acme"', '"ACME"')
    assert (check(NEW), check(with_key)) == ((1, 0), (1, 1))
    (many.folder / ACME).write_bytes(b'name = "\\u0041"')
    assert (check(NEW), check(with_key)) == ((1, 0), (2, 1))


def test_a_command_parses_no_other_file_for_an_edit(many: LiveSettings) -> None:
    file = many.folder / BETA
    files = SettingsFiles(many.folder / CONF, many.env)
    parsed, _ = count(lambda: files.fork({file: NEW}).check_workspace(file))
    assert parsed == 1


def test_a_reload_reads_and_parses_only_what_changed(many: LiveSettings) -> None:
    many.edit(BETA, '"Beta"', '"Better"')
    conf = many.settings.conf
    many.files.look(many.now_s + 0.5, conf)
    assert count(lambda: many.files.look(many.now_s + 1, conf)) == (1, 1)


def test_a_check_changes_nothing_in_the_gateway(live: LiveSettings) -> None:
    file, before = live.folder / BETA, live.settings
    live.files.fork({file: NEW.replace(HASH_B, HASH_A)}).check_workspace(file)
    live.files.fork({file: "name ="}).load()
    assert live.after(2) is before
    assert live.files.errors == ()
    live.edit(BETA, '"Beta"', '"Better"')
    assert live.after(2).workspaces["beta"].name == "Better"


def test_no_edit_is_checked_while_the_shared_files_do_not_load(live: LiveSettings) -> None:
    file = live.folder / BETA
    live.edit(CONF, '"4"', '"four"')
    for looks in (0, 2):  # The gateway has not seen it, and has.
        live.after(looks)
        with pytest.raises(SettingsError, match="markup_percent"):
            live.files.fork({file: NEW}).check_workspace(file)
    live.edit(CONF, '"four"', '"4"')
    assert live.files.fork({file: NEW}).check_workspace(file).error is None


def test_an_edit_is_checked_with_the_catalog_of_this_moment(live: LiveSettings) -> None:
    file = live.folder / BETA
    text = f'default_model = "new-model"\n{NEW}'
    assert live.files.fork({file: text}).check_workspace(file).error
    models = live.folder / "catalog_data/models.toml"
    edit(models, '["gpt-4o-mini"]', '["new-model"]')
    checked = live.files.fork({file: text}).check_workspace(file)
    assert checked.error is None
    assert "new-model" in checked.shared.models
    assert "new-model" not in live.settings.models


def test_a_change_of_proxy_conf_resolves_no_workspace_again(many: LiveSettings) -> None:
    before = many.settings
    many.edit(CONF, '"4"', '"5"')
    after = many.after(2)
    assert after.models["gpt-4o-mini"].retail != before.models["gpt-4o-mini"].retail
    assert all(after.workspaces[name] is one for name, one in before.workspaces.items())
