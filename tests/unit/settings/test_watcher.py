"""Edits on disk reach a running gateway: each file is judged by itself, and a broken one stops no other.

The rules are tried with real files and a clock of the test's own; one look each half a second.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from rig.bounds import BOUND_S
from rig.settings_files import HASH_A, HASH_B, edit, replace, write_files

from addon.settings.errors import SettingsError
from addon.settings.file_content import MAX_FILE_BYTES, Stamp
from addon.settings.sealed_secrets import new_master_key
from addon.settings.settings import Settings, SettingsFiles, load_settings
from addon.settings.snapshot import Snapshot, SnapshotSettings
from addon.settings.sources import OVERDUE_S, is_due
from addon.settings.watcher import MAX_REPORTED, Watcher, describe_problems
from policies.model import Workspace

LOOK_S = 0.5
SNAPSHOT_KEY = new_master_key()
CONF = "proxy.conf"
PROVIDERS = "catalog_data/providers.toml"
FAMILIES = "catalog_data/families.toml"
MODELS = "catalog_data/models.toml"
ACME = "policies/workspaces/acme.toml"
BETA = "policies/workspaces/beta.toml"
NEW = "policies/workspaces/new.toml"
TWO_SECONDS = int(2 / LOOK_S)
BYOK = '[byok.OPENAI]\nsecret = "file:../../acme.secret"\nrouting = true\n'


class Live:
    """The files of one gateway, which looks at them when the test says so. ``env`` is its environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"OPENAI_KEY": "sk-obviously-fake"}
        self.now_s = 100.0
        self.start()

    def start(self) -> Settings:
        """Start, or start again, with nothing in memory of the time before."""
        self.files = SettingsFiles(self.folder / CONF, self.env)
        self.settings = self.files.load()
        self.started_with = self.settings.conf
        self.conf = self.files.built_from().shared_files[self.folder / CONF]
        self.worker = self.new_worker()
        return self.after(2)

    def after(self, looks: int) -> Settings:
        """Return what is served after so many looks."""
        for _ in range(looks):
            self.now_s += LOOK_S
            self.settings = self.files.look(self.now_s, self.started_with)
            self.files.keep()
        self.check_workers()
        return self.settings

    def new_worker(self) -> SnapshotSettings:
        """The settings of a worker that starts now."""
        return SnapshotSettings(self.folder / "snapshot", SNAPSHOT_KEY, self.env)

    def check_workers(self) -> None:
        """Check that workers have the same settings, whether they ran before or start now."""
        Snapshot.of(self.files, self.settings, self.conf).write(self.folder / "snapshot", SNAPSHOT_KEY)
        assert self.worker.load() == self.settings
        assert self.new_worker().load() == self.settings

    def edit(self, name: str, old: str, new: str) -> None:
        edit(self.folder / name, old, new)

    def write(self, name: str, text: str) -> None:
        """Write a file in place, as a plain ``open`` does."""
        (self.folder / name).write_text(text, encoding="utf-8")

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    @property
    def told(self) -> str:
        """What /readyz says of the files, "" where all load."""
        return describe_problems(self.settings.problems) or ""

    @property
    def acme(self) -> Workspace:
        return self.settings.workspaces["acme"]

    def owner(self, key_hash: str) -> str | None:
        """The workspace that a key is good for."""
        workspace, key = self.settings.keys.get(key_hash, (None, None))
        return workspace.id if workspace and key and key.active else None


@pytest.fixture
def live(tmp_path: Path) -> Live:
    write_files(tmp_path)
    return Live(tmp_path)


# When a file is read.


@pytest.mark.parametrize(
    ("before", "now", "changing_s", "due"),
    [
        ("read", "read", 0.0, False),
        ("read", "half", 0.5, False),
        ("half", "whole", 1.0, False),
        ("whole", "whole", 0.5, True),
        ("half", "read", 9.0, False),
        ("half", "whole", OVERDUE_S, True),
        ("whole", None, 0.5, False),
        (None, None, 1.0, True),
        ("whole", None, OVERDUE_S, False),
        ("read", "half", OVERDUE_S, False),
    ],
)
def test_a_changed_file_is_due_when_two_looks_agree_or_it_has_moved_for_too_long(
    before: str | None, now: str | None, changing_s: float, due: bool
) -> None:
    stamps: dict[str | None, Stamp] = {None: None, "read": (1, 9, 1), "half": (2, 0, 1), "whole": (3, 9, 1)}
    assert is_due(stamps["read"], stamps[before], stamps[now], changing_s) is due


@pytest.mark.parametrize(
    ("name", "old", "new", "takes_effect"),
    [
        (ACME, '"Acme"', '"Emca"', lambda live: live.acme.name == "Emca"),
        (MODELS, '"0.15"', '"0.25"', lambda live: "250000" in str(live.settings.models["gpt-4o-mini"])),
        (CONF, "", "[limits]\npro_rpm = 7\n", lambda live: live.settings.conf.limits.pro_rpm == 7),
    ],
)
def test_an_edit_takes_effect_at_the_second_look_and_not_while_it_is_being_written(
    live: Live, name: str, old: str, new: str, takes_effect: Callable[[Live], bool]
) -> None:
    whole = live.text(name)
    live.write(name, "")  # As an editor leaves it for a moment.
    live.after(1)
    assert live.told == ""
    live.write(name, whole)
    live.edit(name, old, new)
    live.after(1)
    assert not takes_effect(live)
    live.after(1)
    assert takes_effect(live)
    assert live.told == ""


def test_nothing_is_built_while_no_file_changes(live: Live) -> None:
    before = live.settings
    os.utime(live.folder / ACME)
    assert live.after(4) is before


def test_a_file_replaced_by_another_of_one_size_and_time_takes_effect(live: Live) -> None:
    file, other = live.folder / ACME, live.folder / "other"
    before = file.stat()
    other.write_text(file.read_text().replace('"Acme"', '"Emca"'))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(file)
    live.after(2)
    assert live.acme.name == "Emca"


def test_a_change_made_while_the_process_started_is_not_missed(live: Live) -> None:
    live.files = SettingsFiles(live.folder / CONF, live.env)
    live.files.load()
    live.edit(ACME, '"Acme"', '"Early"')
    live.after(2)
    assert live.acme.name == "Early"


def test_a_key_is_revoked_within_two_seconds_whatever_else_is_being_written(live: Live) -> None:
    live.edit(ACME, "active = true", "active = false")
    for count in range(TWO_SECONDS):
        # As a file that is saved every 0.3 s looks: another one at each look.
        for name in (BETA, MODELS, CONF):
            live.write(name, live.text(name) + f"# {count}\n")
        live.after(1)
        if live.owner(HASH_A) is None:
            break
    assert (count, live.told) == (1, "")


def test_a_file_that_never_stands_still_is_read_within_two_seconds(live: Live) -> None:
    live.edit(ACME, "active = true", "active = false")
    text = live.text(ACME)
    for count in range(TWO_SECONDS):
        live.write(ACME, f"{text}# {count}\n")
        live.after(1)
        if live.owner(HASH_A) is None:
            break
    # The edit may have come right after the look before, so that is where the time begins.
    assert (count + 1) * LOOK_S == OVERDUE_S


def test_a_new_file_that_never_stands_still_is_read_within_two_seconds(live: Live) -> None:
    for count in range(TWO_SECONDS):
        live.write(NEW, f'name = "New"\n# {count}\n')
        live.after(1)
        if "new" in live.settings.workspaces:
            break
    assert (count + 1) * LOOK_S == OVERDUE_S


def test_a_file_in_motion_is_used_only_while_it_loads(live: Live) -> None:
    for count in range(10):
        live.write(ACME, f'name = "Acme\n# {count}\n')
        live.after(1)
        assert live.owner(HASH_A) == "acme"
    assert "acme.toml" in live.told
    live.write(ACME, 'name = "Calm"\n')
    live.after(2)
    assert (live.acme.name, live.told) == ("Calm", "")


def test_a_catalog_in_motion_that_does_not_load_holds_up_no_other_file_of_the_set(live: Live) -> None:
    whole = live.text(MODELS)
    live.edit(CONF, "", "[limits]\npro_rpm = 7\n")
    for count in range(8):
        # It is TOML all the while, and names what is not there.
        live.write(MODELS, whole.replace('"GROQ"', f'"GROQ{count}"'))
        live.after(1)
    assert live.settings.conf.limits.pro_rpm == 7
    assert "openai/gpt-oss-20b" in live.settings.models
    assert "models.toml: " in live.told
    live.write(MODELS, whole.replace('"0.15"', '"0.25"'))
    live.after(2)
    assert (live.settings.models["gpt-4o-mini"].wholesale.input_microusd_per_mtok, live.told) == (250_000, "")


# What a file says that does not load.

BROKEN = {
    "no TOML": 'name = "Acme\n',
    "an unknown key": f'name = "Acme"\nsurprise = 1\n[[keys]]\nid = "ci"\nhash = "sha256:{HASH_A}"\n',
    "an unknown model": 'name = "Acme"\ndefault_model = "gone"\n',
    "an unknown provider": 'name = "Acme"\n[byok.NOBODY]\nsecret = "env:X"\n',
    "a key twice": f'name = "Acme"\n{2 * f"""[[keys]]\nid = "x"\nhash = "sha256:{HASH_A}"\n"""}',
    "nothing": "",
    "a bare secret": 'name = "Acme"\n[byok.OPENAI]\nsecret = "sk-obviously-fake"\n',
    "more than fits": "#" * (MAX_FILE_BYTES + 1),
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_workspace_keeps_its_last_good_settings_and_touches_no_other(live: Live, text: str) -> None:
    before = live.acme
    live.write(ACME, text)
    live.edit(BETA, '"Beta"', '"Better"')
    live.edit(CONF, "", "[limits]\npro_rpm = 7\n")
    live.after(2)
    assert live.acme == before
    assert live.settings.workspaces["beta"].name == "Better"
    assert live.settings.conf.limits.pro_rpm == 7
    [problem] = live.settings.problems
    assert (problem.file, problem.workspace) == (live.folder / ACME, "acme")
    assert problem.consequence == "workspace acme keeps its last good settings"
    assert "sk-obviously-fake" not in live.told
    # A restart serves it too.
    live.start()
    assert live.acme == before
    assert live.settings.problems == (problem,)
    assert live.owner(HASH_A) == "acme"


def test_a_workspace_that_never_loaded_is_not_served_and_touches_no_other(live: Live) -> None:
    live.write(NEW, 'name = "New"\nplan = "gold"\n')
    live.after(2)
    assert live.settings.workspaces.keys() == {"acme", "beta"}
    [problem] = live.settings.problems
    assert problem.consequence == "workspace new is not served"
    live.edit(NEW, "gold", "pro")
    live.after(2)
    assert (live.settings.workspaces["new"].plan, live.told) == ("pro", "")


def test_a_file_whose_name_is_no_id_is_named_until_it_is_gone(live: Live) -> None:
    file = live.folder / "policies/workspaces/be ta.toml"
    file.write_text('name = "Beta"\n')
    live.after(2)
    assert live.settings.workspaces.keys() == {"acme", "beta"}
    assert f"{file}: the file's name is the workspace's id" in live.told
    file.unlink()
    live.after(2)
    assert live.told == ""


def test_a_deleted_file_revokes_also_after_it_was_broken_and_after_a_restart(live: Live) -> None:
    live.write(ACME, "broken")
    live.after(2)
    assert live.owner(HASH_A) == "acme"
    (live.folder / ACME).unlink()
    live.after(1)
    assert live.owner(HASH_A) == "acme"
    live.after(1)
    assert (live.owner(HASH_A), live.told) == (None, "")
    assert [file.name for file in (live.folder / "var/last-good").iterdir()] == ["beta.toml"]
    # What comes back under its name has no past.
    live.write(ACME, "broken")
    live.after(2)
    assert live.owner(HASH_A) is None


def test_a_file_that_is_deleted_while_nothing_runs_is_revoked_at_the_start(live: Live) -> None:
    live.write(ACME, "broken")
    live.after(2)
    (live.folder / ACME).unlink()
    live.start()
    assert live.owner(HASH_A) is None


def test_a_file_that_comes_back_between_two_looks_was_never_gone(live: Live) -> None:
    text = live.text(ACME)
    for _ in range(5):
        (live.folder / ACME).unlink()
        live.after(1)
        assert live.owner(HASH_A) == "acme"
        live.write(ACME, text)
        live.after(1)
        assert live.owner(HASH_A) == "acme"


def test_a_folder_that_is_gone_revokes_all_and_is_named(live: Live) -> None:
    (live.folder / "policies/workspaces").rename(live.folder / "elsewhere")
    live.after(2)
    assert live.settings.workspaces == {}
    assert "policies/workspaces: no such folder" in live.told
    (live.folder / "elsewhere").rename(live.folder / "policies/workspaces")
    live.after(2)
    assert (live.owner(HASH_A), live.told) == ("acme", "")


def test_the_last_good_text_is_kept_word_for_word_for_its_owner_only(live: Live) -> None:
    (live.folder / "acme.secret").write_text("sk-obviously-fake-too")
    live.edit(ACME, "", BYOK)
    live.after(2)
    good = live.text(ACME)
    live.write(ACME, "broken")
    live.after(2)
    folder = live.folder / "var/last-good"
    kept = folder / "acme.toml"
    assert kept.read_text() == good
    assert (folder.stat().st_mode & 0o777, kept.stat().st_mode & 0o777) == (0o700, 0o600)
    assert sorted(file.name for file in folder.iterdir()) == ["acme.toml", "beta.toml"]


def test_what_can_not_be_kept_is_in_memory_all_the_same(live: Live) -> None:
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


def test_a_kept_text_that_does_not_load_is_none(live: Live) -> None:
    (live.folder / "var/last-good/acme.toml").write_text("")
    live.write(ACME, "broken")
    live.start()
    assert "acme" not in live.settings.workspaces
    [problem] = live.settings.problems
    assert problem.consequence == "workspace acme is not served"


# The set that all share, and what a change of it does to a workspace.


@pytest.mark.parametrize("name", [CONF, PROVIDERS, FAMILIES, MODELS])
def test_a_broken_base_changes_nothing_but_lets_workspaces_be_edited(live: Live, name: str) -> None:
    before = live.settings
    live.edit(PROVIDERS, "127.0.0.1:9999", "127.0.0.1:1111")
    live.write(name, live.text(name) + "[[[\n")
    live.edit(ACME, "active = true", "active = false")
    live.after(2)
    assert live.settings.providers is before.providers
    assert live.owner(HASH_A) is None
    [problem] = live.settings.problems
    assert (problem.file, problem.workspace) == (live.folder / name, None)
    live.write(name, live.text(name).removesuffix("[[[\n"))
    live.after(2)
    assert live.settings.providers["GROQ"].base_url == "http://127.0.0.1:1111"
    assert live.told == ""


def test_a_gateway_does_not_start_on_a_broken_base(live: Live) -> None:
    live.write(MODELS, "[[[\n")
    with pytest.raises(SettingsError, match=r"models\.toml: is not TOML"):
        live.start()


def test_a_model_that_leaves_the_catalog_breaks_those_who_name_it_and_takes_nothing_else_from_them(
    live: Live,
) -> None:
    live.edit(ACME, "", '[[rules]]\nkeywords = ["sql"]\nmodel = "openai/gpt-oss-20b"\n')
    live.after(2)
    whole = live.text(MODELS)
    first, _, third = whole.split("\n\n")
    live.write(MODELS, f"{first}\n\n{third}")
    live.after(2)
    assert live.settings.models.keys() == {"gpt-4o-mini", "sandbox-chat"}
    assert 'rules[0].model: unknown model "openai/gpt-oss-20b"' in live.told
    assert [rule.model for rule in live.acme.rules] == ["openai/gpt-oss-20b"]
    assert live.owner(HASH_A) == "acme"
    live.start()
    assert live.owner(HASH_A) == "acme"
    live.write(MODELS, whole)
    live.after(2)
    assert live.told == ""


def test_a_provider_that_leaves_keeps_its_customers_from_being_billed_for_others(live: Live) -> None:
    (live.folder / "acme.secret").write_text("sk-obviously-fake-too")
    live.edit(ACME, "", BYOK.replace("OPENAI", "GROQ"))
    live.after(2)
    assert live.acme.byok["GROQ"].secret is not None
    first, _, third = live.text(PROVIDERS).split("\n\n")
    live.write(PROVIDERS, f"{first}\n\n{third}")
    first, _, third = live.text(MODELS).split("\n\n")
    live.write(MODELS, f"{first}\n\n{third}")
    live.after(2)
    assert "byok.GROQ: unknown provider" in live.told
    assert (live.acme.byok["GROQ"].secret, live.acme.byok["GROQ"].routing) == (None, True)


def test_a_secret_that_can_not_be_read_stays_the_one_it_was(live: Live) -> None:
    secret = live.folder / "acme.secret"
    secret.write_text("sk-obviously-fake-too")
    live.edit(ACME, "", BYOK)
    live.after(2)
    before = live.acme
    secret.unlink()
    live.after(2)
    assert "byok.OPENAI.secret: the file that it names can't be read" in live.told
    assert live.acme == before
    # No other process knows it: only the calls that need it are refused there.
    live.start()
    assert live.acme.byok["OPENAI"].secret is None
    secret.write_text("sk-obviously-fake-three")
    live.after(2)
    assert live.acme.byok["OPENAI"].secret != before.byok["OPENAI"].secret
    assert live.told == ""


def test_a_renewed_secret_takes_effect_also_where_it_was_missing(live: Live) -> None:
    live.edit(PROVIDERS, "env:GROQ_KEY", "file:../groq.secret")
    live.after(2)
    assert "GROQ.platform_key: the file that it names can't be read" in live.told
    for text in ("gsk-fake-old", "gsk-fake-renewed"):
        replace(live.folder / "groq.secret", text)
        [key] = live.after(2).providers["GROQ"].platform_keys
        assert (key.get_secret_value(), live.told) == (text, "")


def test_sections_that_need_a_restart_keep_their_values(live: Live) -> None:
    before = live.settings.conf
    live.edit(CONF, "port = 9000", "port = 9001")
    live.edit(CONF, "", '[paths]\nworkspaces = "nowhere"\n[limits]\npro_rpm = 7\n')
    settings = live.after(2)
    assert (settings.conf.listen, settings.conf.paths) == (before.listen, before.paths)
    assert (settings.conf.limits.pro_rpm, settings.written.listen.port) == (7, 9001)
    assert "acme" in settings.workspaces


# One key's hash in two files.


def test_the_one_that_had_a_hash_keeps_it(live: Live) -> None:
    before = live.settings.workspaces["beta"]
    live.edit(BETA, HASH_B, HASH_A)
    live.edit(BETA, '"Beta"', '"Better"')
    live.after(2)
    assert live.owner(HASH_A) == "acme"
    assert live.owner(HASH_B) == "beta"
    assert live.settings.workspaces["beta"] == before
    [problem] = live.settings.problems
    assert problem.file == live.folder / BETA
    assert 'keys[0].hash: the same hash as key "ci" of workspace "acme"' in live.told
    live.start()
    assert live.owner(HASH_A) == "acme"
    # Once the other lets go of it, it changes hands.
    live.edit(ACME, HASH_A, "d" * 64)
    live.after(2)
    assert (live.owner(HASH_A), live.told) == ("beta", "")
    assert live.settings.workspaces["beta"].name == "Better"


def test_a_copy_of_a_file_takes_nothing_from_it(live: Live) -> None:
    live.write(
        "policies/workspaces/aaa.toml",
        live.text(ACME) + f'[[keys]]\nid = "own"\nhash = "sha256:{"e" * 64}"\n',
    )
    live.after(2)
    assert (live.owner(HASH_A), live.owner("e" * 64)) == ("acme", "aaa")
    assert 'aaa.toml: keys[0].hash: the same hash as key "ci" of workspace "acme"' in live.told


def test_two_files_may_swap_their_keys(live: Live) -> None:
    live.edit(ACME, HASH_A, HASH_B)
    live.edit(BETA, HASH_B, HASH_A)
    live.after(2)
    assert (live.owner(HASH_A), live.owner(HASH_B), live.told) == ("beta", "acme", "")


def test_a_file_that_gives_way_takes_back_what_it_had(live: Live) -> None:
    # Beta wants acme's key and lets its own go, which acme takes, and does not let go of the other.
    live.edit(BETA, HASH_B, HASH_A)
    live.edit(ACME, "c" * 64, HASH_B)
    live.after(2)
    assert (live.owner(HASH_A), live.owner(HASH_B)) == ("acme", "beta")
    assert len(live.settings.problems) == 2


def test_a_broken_owner_keeps_its_hash(live: Live) -> None:
    live.write(ACME, "broken")
    live.edit(BETA, HASH_B, HASH_A)
    live.after(2)
    assert (live.owner(HASH_A), live.owner(HASH_B)) == ("acme", "beta")


def test_at_a_first_start_both_refuse_a_hash_and_nothing_else(tmp_path: Path) -> None:
    write_files(tmp_path)
    edit(tmp_path / BETA, "", f'[[keys]]\nid = "copy"\nhash = "sha256:{HASH_A}"\n')
    live = Live(tmp_path)
    assert (live.owner(HASH_A), live.owner(HASH_B)) == (None, "beta")
    assert {problem.file.name for problem in live.settings.problems} == {"acme.toml", "beta.toml"}
    assert {problem.consequence for problem in live.settings.problems} == {
        "the key is refused to workspace acme",
        "the key is refused to workspace beta",
    }
    live.start()
    assert live.owner(HASH_A) is None
    live.edit(BETA, f"sha256:{HASH_A}", f"sha256:{'e' * 64}")
    live.after(2)
    assert (live.owner(HASH_A), live.owner("e" * 64), live.told) == ("acme", "beta", "")


# What is read and parsed again.


def test_an_edit_parses_and_resolves_its_own_file_only(live: Live) -> None:
    for number in range(50):
        live.write(f"policies/workspaces/w{number}.toml", f'name = "W{number}"\n')
    live.after(2)
    before = live.settings
    live.edit("policies/workspaces/w7.toml", "W7", "Seven")
    live.after(2)
    same = [name for name, made in live.settings.workspaces.items() if made is before.workspaces[name]]
    assert len(same) == 51
    assert live.settings.models is before.models
    assert live.settings.workspaces["w7"].name == "Seven"


def test_a_page_names_the_first_of_many_broken_files_and_counts_the_others(live: Live) -> None:
    for number in range(MAX_REPORTED + 5):
        live.write(f"policies/workspaces/w{number}.toml", "broken")
    live.after(2)
    assert len(live.settings.problems) == MAX_REPORTED + 5
    assert live.told.endswith("; 5 more files do not load")


# The task.


class Running:
    """A watcher over real files, and the settings that it handed over."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = SettingsFiles(write_files(folder), {"OPENAI_KEY": "sk-obviously-fake"})
        self.settings = files.load()
        self.applied: asyncio.Queue[Settings] = asyncio.Queue()
        self.watcher = Watcher(files, self.settings, self.applied.put_nowait, interval_s=0.01)

    def edit(self, name: str, old: str, new: str) -> None:
        edit(self.folder / name, old, new)

    async def next(self) -> Settings:
        return await asyncio.wait_for(self.applied.get(), BOUND_S)


class Lines(logging.Handler):
    """The log lines of the watcher."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[logging.LogRecord] = []
        self.died = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record)
        if record.levelno == logging.CRITICAL and "no longer reloaded; restart" in record.getMessage():
            self.died.set()

    def having(self, word: str, level: int = logging.INFO) -> list[str]:
        """The lines of at least ``level`` with ``word``."""
        return [
            record.getMessage()
            for record in self.seen
            if record.levelno >= level and word in record.getMessage()
        ]


@pytest.fixture
async def lines() -> AsyncIterator[Lines]:
    handler, logger = Lines(), logging.getLogger("tollgate.reload")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture
async def running(tmp_path: Path, lines: Lines) -> AsyncIterator[Running]:
    made = Running(tmp_path)
    made.watcher.start()
    yield made
    await made.watcher.stop()


async def test_an_edit_is_handed_over(running: Running, lines: Lines) -> None:
    running.edit(ACME, '"Acme"', '"Emca"')
    settings = await running.next()
    assert settings.workspaces["acme"].name == "Emca"
    assert lines.having(f"settings reloaded, fingerprint {settings.fingerprint}")


async def test_a_broken_file_is_one_line_is_shown_until_it_is_mended_and_handed_over(
    running: Running, lines: Lines
) -> None:
    running.edit(ACME, 'plan = "pro"', 'plan = "gold"')
    broken = await running.next()
    [line] = lines.having("acme.toml: plan: must be 'standard' or 'pro'", logging.ERROR)
    assert line == f"workspace acme keeps its last good settings: {running.watcher.error}"
    assert broken.fingerprint == running.settings.fingerprint
    # Another edit does not say it again.
    running.edit(CONF, "", "[limits]\npro_rpm = 7\n")
    assert (await running.next()).conf.limits.pro_rpm == 7
    running.edit(ACME, 'plan = "gold"', 'plan = "standard"')
    assert (await running.next()).workspaces["acme"].plan == "standard"
    assert running.watcher.error is None
    assert len(lines.having("acme.toml: plan")) == 1
    assert len(lines.having("acme.toml loads again")) == 1
    assert [record.__dict__.get("event") for record in lines.seen if "acme.toml" in record.getMessage()] == [
        "file broken",
        "file mended",
    ]


async def test_what_is_broken_at_the_start_is_logged_too(tmp_path: Path, lines: Lines) -> None:
    write_files(tmp_path)
    (tmp_path / NEW).write_text("broken")
    files = SettingsFiles(tmp_path / CONF, {})
    watcher = Watcher(files, files.load(), lambda _: None)
    watcher.start()
    assert lines.having("workspace new is not served: ", logging.ERROR)
    await watcher.stop()


async def test_the_base_is_said_to_load_again_once_all_of_it_does(running: Running, lines: Lines) -> None:
    models = running.folder / MODELS
    good = models.read_text()
    replace(models, "[[[")
    await running.next()
    running.edit(CONF, "", "surprise = 1\n")
    await running.next()
    replace(models, good)
    # Something that takes effect only after it.
    running.edit(ACME, '"Acme"', '"Emca"')
    while "Emca" not in str((await running.next()).workspaces["acme"]):
        pass
    assert not lines.having("load again")
    running.edit(CONF, "surprise = 1\n", "")
    await running.next()
    assert lines.having("the settings load again") == ["the settings load again"]
    assert all(
        line.startswith("the settings do not load, the last good ones stay: ")
        for line in lines.having("not load")
    )


async def test_a_section_that_waits_for_a_restart_is_warned_of_once(running: Running, lines: Lines) -> None:
    running.edit(CONF, "port = 9000", 'port = 9001\n[paths]\nworkspaces = "nowhere"')
    await running.next()
    running.edit(ACME, '"Acme"', '"Emca"')
    await running.next()
    assert lines.having("take effect after a restart") == [
        "changes of [listen], [paths] in proxy.conf take effect after a restart"
    ]


async def test_what_the_command_line_overrode_stays_and_is_no_reason_to_warn(
    tmp_path: Path, lines: Lines
) -> None:
    files = SettingsFiles(write_files(tmp_path), {})
    settings = files.load().with_listen(port=0)
    applied: asyncio.Queue[Settings] = asyncio.Queue()
    watcher = Watcher(files, settings, applied.put_nowait, interval_s=0.01)
    watcher.start()
    edit(tmp_path / ACME, '"Acme"', '"Emca"')
    assert (await asyncio.wait_for(applied.get(), BOUND_S)).conf.listen.port == 0
    await watcher.stop()
    assert not lines.having("restart")


async def test_a_folder_that_takes_no_text_is_warned_of_once(running: Running, lines: Lines) -> None:
    running.edit(ACME, '"Acme"', '"Emca"')
    await running.next()
    (running.folder / "var").rename(running.folder / "elsewhere")
    (running.folder / "var").write_text("no folder")
    for name in ("One", "Two", "Three"):
        text = (running.folder / BETA).read_text()
        replace(running.folder / BETA, text.replace(text.splitlines()[0], f'name = "{name}"'))
        await running.next()
    assert len(lines.having("can't be kept for the next start", logging.WARNING)) == 1


async def test_a_look_that_fails_is_said_once_and_the_next_may_succeed(
    running: Running, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter(range(3))

    def fail(*_: object) -> None:
        if next(failures, None) is None:
            monkeypatch.undo()
        raise RuntimeError

    monkeypatch.setattr("addon.settings.builder.load_shared_settings", fail)
    running.edit(CONF, "", "[limits]\npro_rpm = 7\n")
    assert (await running.next()).conf.limits.pro_rpm == 7
    assert running.watcher.error is None
    assert len(lines.having("the files can't be checked", logging.ERROR)) == 1


async def test_a_watcher_that_dies_says_so(tmp_path: Path, lines: Lines) -> None:
    files = SettingsFiles(write_files(tmp_path), {})

    def fail(settings: Settings) -> None:
        raise RuntimeError(f"refused {settings.fingerprint}")

    watcher = Watcher(files, files.load(), fail, interval_s=0.01)
    edit(tmp_path / ACME, '"Acme"', '"Emca"')
    watcher.start()
    async with asyncio.timeout(BOUND_S):
        await lines.died.wait()
    assert watcher.error == "the settings are no longer reloaded; restart the gateway"
    await watcher.stop()


async def test_a_stopped_watcher_leaves_no_task_behind(running: Running) -> None:
    await running.watcher.stop()
    assert [task for task in asyncio.all_tasks() if task.get_name() == "settings reload"] == []


def test_one_load_is_strict(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    (tmp_path / ACME).write_text("broken")
    with pytest.raises(SettingsError, match=r"acme\.toml: is not TOML"):
        load_settings(conf_file, {})
