"""The page of a result says whether the gateway uses the change already."""

from pathlib import Path

import pytest
from rig.settings_files import edit

from addon.console.changes import keys, wallet, workspaces
from addon.console.changes.form import Form
from addon.console.changes.maker import ChangeMaker
from addon.settings.settings import SettingsFiles
from unit.console.changes.test_forms import text_of
from unit.console.changes.test_maker import AT_ACME, CI, REQUESTER, make


@pytest.mark.parametrize(
    ("form", "names", "typed"),
    [
        (keys.CREATE, AT_ACME, {"id": "phone"}),
        (keys.SET, CI, {"label": "CI"}),
        (keys.REVOKE, CI, {}),
        (workspaces.CREATE, {}, {"workspace": "gamma"}),
        (workspaces.SET, AT_ACME, {"rpm_override": "7"}),
    ],
)
async def test_older_settings_do_not_have_the_change(
    maker: ChangeMaker, conf: Path, form: Form, names: dict[str, str], typed: dict[str, str]
) -> None:
    before = SettingsFiles(conf).load()
    result = maker.results.get(await make(maker, form, names, **typed), REQUESTER.session)
    assert result is not None
    assert result.is_in_force is not None
    assert not result.is_in_force(before)
    assert result.is_in_force(SettingsFiles(conf).load())


async def test_a_change_that_means_nothing_is_in_force_at_once(
    maker: ChangeMaker, conf: Path, acme: Path
) -> None:
    before = SettingsFiles(conf).load()
    shown = await maker.read_current(workspaces.TEXT, AT_ACME)
    name = await make(maker, workspaces.TEXT, AT_ACME, text=f"# a comment\n{shown['text']}")
    result = maker.results.get(name, REQUESTER.session)
    assert result is not None
    assert result.is_in_force is not None
    assert result.is_in_force(before)


async def test_an_entry_of_a_wallet_waits_for_no_file(maker: ChangeMaker) -> None:
    name = await make(maker, wallet.CREDIT, AT_ACME, amount="5", reference="May")
    result = maker.results.get(name, REQUESTER.session)
    assert result is not None
    assert result.is_in_force is None


async def test_a_key_of_a_broken_file_is_in_force_by_its_last_good_text(
    maker: ChangeMaker, conf: Path, acme: Path
) -> None:
    edit(acme, 'plan = "pro"', 'plan = "gold"')
    (conf.parent / "var" / "last-good").mkdir(exist_ok=True)
    (conf.parent / "var" / "last-good" / "acme.toml").write_text(text_of(acme).replace('"gold"', '"pro"'))
    before = SettingsFiles(conf).load()
    result = maker.results.get(await make(maker, keys.REVOKE, CI), REQUESTER.session)
    assert result is not None
    assert result.is_in_force is not None
    assert not result.is_in_force(before)
    assert result.is_in_force(SettingsFiles(conf).load())
