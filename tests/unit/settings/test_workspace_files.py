"""Each workspace file is loaded by itself. A broken one keeps its last good settings and affects no other."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig.live_settings import LiveSettings
from rig.settings_files import ACME, BETA, CONF, HASH_A, MODELS, PROVIDERS, write_files

from addon.settings.errors import SettingsError
from addon.settings.file_content import MAX_FILE_BYTES
from addon.settings.settings import SettingsFiles

NEW = "policies/workspaces/new.toml"
BYOK = '[byok.OPENAI]\nsecret = "file:../../acme.secret"\nrouting = true\n'

BROKEN = {
    "text that is not TOML": 'name = "Acme\n',
    "an unknown key": f'name = "Acme"\nsurprise = 1\n[[keys]]\nid = "ci"\nhash = "sha256:{HASH_A}"\n',
    "an unknown model": 'name = "Acme"\ndefault_model = "gone"\n',
    "an unknown provider": 'name = "Acme"\n[byok.NOBODY]\nsecret = "env:X"\n',
    "a key twice": f'name = "Acme"\n{2 * f"""[[keys]]\nid = "x"\nhash = "sha256:{HASH_A}"\n"""}',
    "an empty file": "",
    "a bare secret": 'name = "Acme"\n[byok.OPENAI]\nsecret = "sk-obviously-fake"\n',
    "too large a file": "#" * (MAX_FILE_BYTES + 1),
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_workspace_keeps_its_last_good_settings_and_affects_no_other(
    live: LiveSettings, text: str
) -> None:
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
    assert "sk-obviously-fake" not in live.problems
    # A restart serves the last good settings too.
    live.start()
    assert live.acme == before
    assert live.settings.problems == (problem,)
    assert live.find_owner(HASH_A) == "acme"


def test_a_workspace_that_never_loaded_is_not_served_and_affects_no_other(live: LiveSettings) -> None:
    live.write(NEW, 'name = "New"\nplan = "gold"\n')
    live.after(2)
    assert live.settings.workspaces.keys() == {"acme", "beta"}
    [problem] = live.settings.problems
    assert problem.consequence == "workspace new is not served"
    live.edit(NEW, "gold", "pro")
    live.after(2)
    assert (live.settings.workspaces["new"].plan, live.problems) == ("pro", "")


@pytest.mark.parametrize(
    ("name", "shown"), [(b"be ta", "be ta"), (b"b\xeata", "b\\xeata")], ids=["a space", "not UTF-8"]
)
def test_a_file_whose_name_is_not_an_id_is_reported_until_it_is_deleted(
    live: LiveSettings, name: bytes, shown: str
) -> None:
    folder = live.folder / "policies/workspaces"
    file = folder / os.fsdecode(name + b".toml")
    file.write_text('name = "Beta"\n')
    live.after(2)
    assert live.settings.workspaces.keys() == {"acme", "beta"}
    assert f"{folder}/{shown}.toml: the file's name is the workspace's id" in live.problems
    [problem] = live.settings.problems
    assert problem.consequence == f"workspace {shown} is not served"
    assert str(problem).encode()  # As metrics and the snapshot of workers encode it.
    file.unlink()
    live.after(2)
    assert live.problems == ""


def test_a_deleted_file_revokes_also_after_it_was_broken_and_after_a_restart(live: LiveSettings) -> None:
    live.write(ACME, "broken")
    live.after(2)
    assert live.find_owner(HASH_A) == "acme"
    (live.folder / ACME).unlink()
    live.after(1)
    assert live.find_owner(HASH_A) == "acme"
    live.after(1)
    assert (live.find_owner(HASH_A), live.problems) == (None, "")
    assert [file.name for file in (live.folder / "var/last-good").iterdir()] == ["beta.toml"]
    # A new file under its name has no last good text.
    live.write(ACME, "broken")
    live.after(2)
    assert live.find_owner(HASH_A) is None


def test_a_file_deleted_while_no_gateway_runs_is_revoked_at_the_start(live: LiveSettings) -> None:
    live.write(ACME, "broken")
    live.after(2)
    (live.folder / ACME).unlink()
    live.start()
    assert live.find_owner(HASH_A) is None


def test_a_file_that_comes_back_after_one_look_revokes_nothing(live: LiveSettings) -> None:
    text = live.text(ACME)
    for _ in range(5):
        (live.folder / ACME).unlink()
        live.after(1)
        assert live.find_owner(HASH_A) == "acme"
        live.write(ACME, text)
        live.after(1)
        assert live.find_owner(HASH_A) == "acme"


def test_a_deleted_folder_revokes_all_and_is_reported(live: LiveSettings) -> None:
    (live.folder / "policies/workspaces").rename(live.folder / "elsewhere")
    live.after(2)
    assert live.settings.workspaces == {}
    assert "policies/workspaces: no such folder" in live.problems
    (live.folder / "elsewhere").rename(live.folder / "policies/workspaces")
    live.after(2)
    assert (live.find_owner(HASH_A), live.problems) == ("acme", "")


def test_a_folder_that_is_not_made_yet_has_no_workspace(tmp_path: Path) -> None:
    write_files(tmp_path)
    folder = tmp_path / "policies/workspaces"
    shutil.rmtree(folder)
    assert SettingsFiles(tmp_path / CONF).load().workspaces == {}
    shutil.rmtree(folder.parent)
    with pytest.raises(SettingsError, match="policies/workspaces: no such folder"):
        SettingsFiles(tmp_path / CONF).load()


def test_a_deleted_model_breaks_the_files_that_name_it_and_their_other_settings_stay(
    live: LiveSettings,
) -> None:
    live.edit(ACME, "", '[[rules]]\nkeywords = ["sql"]\nmodel = "openai/gpt-oss-20b"\n')
    live.after(2)
    whole = live.text(MODELS)
    first, _, third = whole.split("\n\n")
    live.write(MODELS, f"{first}\n\n{third}")
    live.after(2)
    assert live.settings.models.keys() == {"gpt-4o-mini", "sandbox-chat"}
    assert 'rules[0] (sql).model: unknown model "openai/gpt-oss-20b"' in live.problems
    assert [rule.model for rule in live.acme.rules] == ["openai/gpt-oss-20b"]
    assert live.find_owner(HASH_A) == "acme"
    live.start()
    assert live.find_owner(HASH_A) == "acme"
    live.write(MODELS, whole)
    live.after(2)
    assert live.problems == ""


def test_a_deleted_provider_does_not_bill_its_customers_for_another(live: LiveSettings) -> None:
    (live.folder / "acme.secret").write_text("sk-obviously-fake-too")
    live.edit(ACME, "", BYOK.replace("OPENAI", "GROQ"))
    live.after(2)
    assert live.acme.byok["GROQ"].secret is not None
    first, _, third = live.text(PROVIDERS).split("\n\n")
    live.write(PROVIDERS, f"{first}\n\n{third}")
    first, _, third = live.text(MODELS).split("\n\n")
    live.write(MODELS, f"{first}\n\n{third}")
    live.after(2)
    assert "byok.GROQ: unknown provider" in live.problems
    assert (live.acme.byok["GROQ"].secret, live.acme.byok["GROQ"].routing) == (None, True)


def test_a_secret_that_can_not_be_read_any_more_is_kept(live: LiveSettings) -> None:
    secret = live.folder / "acme.secret"
    secret.write_text("sk-obviously-fake-too")
    live.edit(ACME, "", BYOK)
    live.after(2)
    before = live.acme
    secret.unlink()
    live.after(2)
    assert "byok.OPENAI.secret: the file that it names can't be read" in live.problems
    assert live.acme == before
    # A new process does not know the secret. It refuses only the calls that need it.
    live.start()
    assert live.acme.byok["OPENAI"].secret is None
    secret.write_text("sk-obviously-fake-three")
    live.after(2)
    assert live.acme.byok["OPENAI"].secret != before.byok["OPENAI"].secret
    assert live.problems == ""


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """The paths that this process opens during the test."""
    paths: list[str] = []
    is_active = True

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if is_active and event == "open":
            paths.append(str(arguments[0]))

    sys.addaudithook(note)  # It can't be removed.
    yield paths
    is_active = False


def test_an_edit_reads_parses_and_resolves_its_own_file_only(live: LiveSettings, opened: list[str]) -> None:
    for number in range(50):
        live.write(f"policies/workspaces/w{number}.toml", f'name = "W{number}"\n')
    live.after(2)
    before = live.settings
    live.edit("policies/workspaces/w7.toml", "W7", "Seven")
    opened.clear()
    live.after(2)
    assert {Path(path).name for path in opened if "/workspaces/" in path} == {"w7.toml"}
    same = [name for name, made in live.settings.workspaces.items() if made is before.workspaces[name]]
    assert len(same) == 51
    assert live.settings.models is before.models
    assert live.settings.workspaces["w7"].name == "Seven"
