"""The model of the demo workspace: which one it calls first, and how it leaves the built-in provider."""

from dataclasses import replace
from pathlib import Path

import pytest
from rig.audit import read_actions
from rig.processes import Shipped
from rig.routed_calls import MODELS, PROVIDERS

from addon.commands.serve_first_run import make_demo, renew_demo_model
from addon.settings.first_run import create_demo_workspace, find_demo_model
from addon.settings.settings import SettingsFiles
from addon.store.money.audit.audit_spool import AuditSpool
from addon.store.money.sqlite.place import SqlitePlace
from policies.model import Model
from policies.prices import Prices

SANDBOX = replace(MODELS["gpt"], slug="sandbox", provider=PROVIDERS["SANDBOX"])


def _priced(slug: str, output: int, **changes: object) -> Model:
    return replace(MODELS["gpt"], slug=slug, retail=Prices(1, 1, output), **changes)


@pytest.mark.parametrize(
    ("models", "found"),
    [
        ([_priced("dear", 9), _priced("cheap", 2)], "cheap"),
        ([_priced("first", 2), _priced("second", 2)], "first"),
        ([_priced("cheap", 2), SANDBOX], "sandbox"),
        ([_priced("old", 1, active=False), _priced("own", 1, byok_only=True), _priced("dear", 9)], "dear"),
        ([_priced("keyless", 1, provider=PROVIDERS["BARE"])], None),
        ([], None),
    ],
    ids=["cheapest", "first of equals", "built-in", "only what platform keys serve", "no key", "none"],
)
def test_the_first_call_goes_to_the_built_in_provider_or_to_the_cheapest_model(
    models: list[Model], found: str | None
) -> None:
    model = find_demo_model(models)
    assert (model and model.slug) == found


def test_what_a_first_run_makes_is_in_the_audit_log_once(tmp_path: Path) -> None:
    settings = SettingsFiles(Shipped().write(tmp_path), {}).load()
    paths = settings.conf.paths
    paths.workspaces.mkdir()
    for _ in range(2):
        make_demo(paths.workspaces, settings)
    AuditSpool(paths.database).drain(SqlitePlace(paths.database), 1)
    assert read_actions(paths.database) == [("serve", "made")] * 2


def test_a_demo_that_cant_be_changed_gets_the_command_that_does(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    conf_file = Shipped().write(tmp_path)
    folder = tmp_path / "policies" / "workspaces"
    folder.mkdir()
    create_demo_workspace(folder, "sandbox-chat")
    settings = SettingsFiles(conf_file, {"OPENAI_API_KEY": "fake"}).load()
    (folder / "demo.toml").unlink()
    assert not renew_demo_model(conf_file, settings)
    said = capfd.readouterr().err
    assert "Its file can't be changed" in said
    assert "./run.sh workspaces set demo --default-model gpt-" in said
