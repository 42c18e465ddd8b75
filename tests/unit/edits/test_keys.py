"""Keys are created, changed and rotated in one write, only in files that load, and never next to another change."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rig.settings_files import ACME, BETA, HASH_A, contents, edit, replace
from rig.unrecorded import create_key, revoke_key, rotate_key, set_key

from addon.edits.workspace_files import EditError, UnknownWorkspaceError
from addon.settings.api_keys import hash_key
from addon.settings.errors import SettingsError
from addon.settings.settings import SettingsFiles, load_settings
from policies.model import Key

LATER = datetime(2100, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
ALL: dict[str, Any] = {
    "label": "CI of the shop",
    "models": ["gpt-4o*", "openai/*"],
    "expires_at": LATER,
    "spend_cap_usd": "20",
    "spend_reset": "monthly",
    "request_cap": 9,
    "request_reset": "daily",
    "tpm": 5_000,
}


@pytest.fixture
def conf(folder: Path) -> Path:
    return folder / "proxy.conf"


def found(conf: Path, workspace: str = "acme", key_id: str = "ci") -> Key:
    keys = load_settings(conf, {}).workspaces[workspace].keys
    [key] = [key for key in keys if key.id == key_id]
    return key


def test_a_key_has_its_caps_from_its_first_moment(conf: Path, folder: Path) -> None:
    before = (folder / ACME).read_text()
    made = create_key(conf, "acme", "phone", ALL)
    assert (folder / ACME).read_text() == before + (
        f'\n[[keys]]\nid = "phone"\nhash = "sha256:{hash_key(made.secret)}"\nactive = true\n'
        'label = "CI of the shop"\nmodels = ["gpt-4o*", "openai/*"]\nexpires_at = 2100-01-01T00:00:00Z\n'
        'spend_cap_usd = "20"\nspend_reset = "monthly"\nrequest_cap = 9\nrequest_reset = "daily"\ntpm = 5000\n'
    )
    key = found(conf, key_id="phone")
    assert (key.spend_cap_nanousd, key.request_cap, key.expires_at) == (20 * 10**9, 9, LATER)


def test_a_key_like_another_has_its_settings_but_not_its_name_secret_or_state(conf: Path) -> None:
    set_key(conf, "acme", "ci", ALL)
    rotate_key(conf, "acme", "ci", DAY)
    revoke_key(conf, "acme", "ci")
    create_key(conf, "acme", "two", {"request_cap": 7, "models": None}, like="ci")
    one, two = found(conf), found(conf, key_id="two")
    assert (two.active, two.label, two.previous_hash, two.models) == (True, None, None, None)
    assert (two.request_cap, two.request_reset) == (7, "daily")
    same = ("spend_cap_nanousd", "spend_reset", "expires_at", "tpm")
    assert [getattr(one, name) for name in same] == [getattr(two, name) for name in same]
    assert one.hash != two.hash


def test_a_key_like_another_may_leave_out_its_caps(conf: Path) -> None:
    set_key(conf, "acme", "ci", ALL)
    create_key(conf, "acme", "two", {"spend_cap_usd": None, "request_cap": None}, like="ci")
    key = found(conf, key_id="two")
    assert (key.spend_cap_nanousd, key.spend_reset, key.request_cap) == (None, "never", None)
    with pytest.raises(EditError, match="request_reset has no effect without request_cap"):
        create_key(conf, "acme", "three", {"request_cap": None, "request_reset": "daily"}, like="ci")


def test_settings_are_changed_and_removed_in_place(conf: Path, folder: Path) -> None:
    before = (folder / ACME).read_text()
    set_key(conf, "acme", "ci", ALL)
    assert found(conf).label == "CI of the shop"
    assert "# made in May" in (folder / ACME).read_text()
    set_key(conf, "acme", "ci", {"label": "Other", "spend_cap_usd": None, "request_cap": None})
    key = found(conf)
    assert (key.label, key.spend_cap_nanousd, key.spend_reset, key.request_cap) == (
        "Other",
        None,
        "never",
        None,
    )
    set_key(conf, "acme", "ci", {"label": None, "models": None, "expires_at": None, "tpm": None})
    assert (folder / ACME).read_text() == before


def test_a_rotated_key_keeps_everything_but_its_secret(conf: Path, folder: Path) -> None:
    set_key(conf, "acme", "ci", ALL)
    before, now = found(conf), datetime.now(UTC)
    first = rotate_key(conf, "acme", "ci", DAY)
    after = found(conf)
    assert (after.hash, after.previous_hash) == (hash_key(first.secret), HASH_A)
    assert after.previous_until == first.old_until
    assert first.old_until is not None
    assert now + DAY - timedelta(seconds=1) <= first.old_until <= datetime.now(UTC) + DAY
    assert first.dropped_until is None
    kept = (
        "id",
        "label",
        "models",
        "expires_at",
        "spend_cap_nanousd",
        "spend_reset",
        "request_cap",
        "active",
    )
    assert [getattr(before, name) for name in kept] == [getattr(after, name) for name in kept]
    assert "# made in May" in (folder / ACME).read_text()
    # The second rotation ends the oldest secret, and says so.
    second = rotate_key(conf, "acme", "ci", DAY)
    assert (found(conf).previous_hash, second.dropped_until) == (hash_key(first.secret), first.old_until)
    assert HASH_A not in (folder / ACME).read_text()


def test_after_a_leak_the_old_secrets_end_at_once(conf: Path, folder: Path) -> None:
    first = rotate_key(conf, "acme", "ci", DAY)
    second = rotate_key(conf, "acme", "ci", timedelta(0))
    assert (second.old_until, second.dropped_until) == (None, first.old_until)
    key = found(conf)
    assert (key.hash, key.previous_hash, key.previous_until) == (hash_key(second.secret), None, None)
    assert "previous" not in (folder / ACME).read_text()


def test_a_revoked_key_has_no_secret_left_also_in_its_last_good_text(conf: Path, folder: Path) -> None:
    rotate_key(conf, "acme", "ci", DAY)
    good = (folder / ACME).read_text()
    last_good = folder / "var/last-good/acme.toml"
    last_good.parent.mkdir(parents=True)
    last_good.write_text(good)
    edit(folder / ACME, 'plan = "pro"', 'plan = "gold"')
    assert "the key is turned off in its last good settings too" in str(revoke_key(conf, "acme", "ci"))
    for file in (folder / ACME, last_good):
        assert "previous" not in file.read_text()
        assert "active = true" not in file.read_text()


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "an unknown workspace": (
        lambda conf: set_key(conf, "acm", "ci", ALL),
        'unknown workspace "acm"; did you mean "acme"?',
    ),
    "an unknown key": (
        lambda conf: set_key(conf, "acme", "cli", ALL),
        'has no key "cli"; did you mean "ci"?',
    ),
    "a key like an unknown one": (
        lambda conf: create_key(conf, "acme", like="cli"),
        'no key "cli"; did you mean "ci"?',
    ),
    "a new workspace like a key": (
        lambda conf: create_key(conf, "new", like="ci", is_new_workspace=True),
        'the new workspace has no key "ci"',
    ),
    "an id twice": (lambda conf: create_key(conf, "acme", "ci"), 'already has a key "ci"'),
    "a moment that has passed": (
        lambda conf: set_key(conf, "acme", "ci", {"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}),
        "expires_at 2020-01-01T00:00:00+00:00 has passed; revoke the key",
    ),
    "a reset without a cap": (
        lambda conf: create_key(conf, "acme", changes={"spend_reset": "daily"}),
        "spend_reset has no effect without spend_cap_usd",
    ),
    "a reset of a cap that goes": (
        lambda conf: set_key(conf, "acme", "ci", {"request_cap": None, "request_reset": "daily"}),
        "request_reset has no effect without request_cap",
    ),
    "a wrong value": (
        lambda conf: set_key(conf, "acme", "ci", {"models": ["a*b"]}),
        'keys[0] (ci).models[0]: must have "*" only at its end',
    ),
    "a grace time that never ends": (
        lambda conf: rotate_key(conf, "acme", "ci", timedelta(weeks=999_999)),
        "the grace time is too long",
    ),
    "a rotation of an inactive key": (
        lambda conf: rotate_key(conf, "acme", "laptop", DAY),
        "key laptop is not active, so a new secret would not work",
    ),
}


@pytest.mark.parametrize(("run", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_refused_edit_says_why_and_writes_nothing(
    conf: Path, folder: Path, run: Callable[[Path], Any], reason: str
) -> None:
    before = contents(folder)
    with pytest.raises((EditError, SettingsError)) as caught:
        run(conf)
    assert reason in str(caught.value)
    assert contents(folder) == before


def test_an_expired_key_is_not_rotated(conf: Path, folder: Path) -> None:
    edit(folder / ACME, "active = true", "active = true\nexpires_at = 2020-01-01T00:00:00Z")
    with pytest.raises(EditError, match="key ci has expired"):
        rotate_key(conf, "acme", "ci", DAY)


@pytest.mark.parametrize(
    "run",
    [
        lambda conf: set_key(conf, "acme", "ci", ALL),
        lambda conf: rotate_key(conf, "acme", "ci", DAY),
        lambda conf: create_key(conf, "acme"),
        lambda conf: revoke_key(conf, "acme", "ci"),
    ],
)
def test_an_edit_does_not_overwrite_a_change_of_another_program(
    conf: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[[Path], Any]
) -> None:
    """The other program, such as a text editor, does not take the lock. It writes while the edit is tried."""
    check, before = SettingsFiles.check_workspace, (folder / ACME).read_text()

    def check_while_another_writes(files: SettingsFiles, checked: Path) -> Any:
        with (folder / ACME).open("a") as file:
            file.write("# another line\n")
        return check(files, checked)

    monkeypatch.setattr(SettingsFiles, "check_workspace", check_while_another_writes)
    with pytest.raises(
        EditError, match="was changed by another program at the same time; nothing was written"
    ):
        run(conf)
    text = (folder / ACME).read_text()
    assert text == before + "# another line\n" * text.count("# another line")


def test_edits_at_the_same_time_lose_nothing(conf: Path) -> None:
    def change(number: int) -> None:
        if number % 3 == 0:
            create_key(conf, "acme", f"made-{number}", {"request_cap": 5})
        elif number % 3 == 1:
            set_key(conf, "acme", "ci", {"label": f"label {number}"})
        else:
            rotate_key(conf, "acme", "ci", DAY)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(change, range(12)))
    keys = {key.id: key for key in load_settings(conf, {}).workspaces["acme"].keys}
    assert {name for name in keys if name.startswith("made-")} == {"made-0", "made-3", "made-6", "made-9"}
    assert all(key.request_cap == 5 for name, key in keys.items() if name.startswith("made-"))
    assert keys["ci"].label in {f"label {number}" for number in (1, 4, 7, 10)}
    assert keys["ci"].previous_hash is not None


def test_an_edit_of_one_workspace_does_not_need_another_to_load(conf: Path, folder: Path) -> None:
    replace(folder / ACME, "broken")
    set_key(conf, "beta", "ci", {"label": "x"})
    assert 'label = "x"' in (folder / BETA).read_text()
    with pytest.raises(SettingsError, match="is not TOML"):
        set_key(conf, "acme", "ci", {"label": "x"})
    with pytest.raises(UnknownWorkspaceError):
        revoke_key(conf, "acm", "ci")
