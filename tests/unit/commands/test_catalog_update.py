"""``tollgate catalog update``: published prices as a diff, and written in one edit that loads."""

import json
import shutil
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rig.settings_files import contents, edit

from addon.commands.catalog import catalog
from addon.commands.init import init
from addon.settings.value_types import SHIPPED_CATALOG

MINI = '["gpt-4o-mini"]  # retires 2027-01-14\n'


def run(conf: Path, *arguments: str) -> Result:
    return CliRunner().invoke(catalog, [*arguments, "--conf", str(conf)])


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A conf with a catalog of its own: the shipped one with three wrong prices of two models."""
    shutil.copytree(SHIPPED_CATALOG, tmp_path / "catalog_data")
    (tmp_path / "policies" / "workspaces").mkdir(parents=True)
    (tmp_path / "proxy.conf").touch()
    file = tmp_path / "catalog_data" / "models.toml"
    text = file.read_text(encoding="utf-8")
    start = text.index(MINI)
    mini = text[start:].replace('"0.15"', '"0.12"', 1).replace('"0.6"', '"0.5"  # was', 1)
    head = text[:start].replace('cached_input_price_per_m = "1.25"', 'cached_input_price_per_m = "1.5"', 1)
    file.write_text(head + mini, encoding="utf-8")
    return tmp_path / "proxy.conf"


@pytest.fixture
def deployed(tmp_path: Path) -> Path:
    """The conf of a deployment folder."""
    assert CliRunner().invoke(init, [str(tmp_path / "deployed")]).exit_code == 0
    return tmp_path / "deployed" / "proxy.conf"


def models_file(conf: Path) -> Path:
    return conf.parent / "catalog_data" / "models.toml"


def test_the_diff_has_each_price_by_model_and_key_and_writes_nothing(conf: Path) -> None:
    before = contents(conf.parent)
    done = run(conf, "update", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    mini = [change for change in found["changes"] if change["slug"] == "gpt-4o-mini"]
    assert mini == [
        {
            "slug": "gpt-4o-mini",
            "key": "input_price_per_m",
            "old": "0.12",
            "new": "0.15",
            "change": "+25.0 %",
        },
        {"slug": "gpt-4o-mini", "key": "output_price_per_m", "old": "0.5", "new": "0.6", "change": "+20.0 %"},
    ]
    assert len(found["changes"]) == 3
    assert (found["genai_prices"], found["overlaid"], found["written_to"]) == (
        version("genai-prices"),
        [],
        None,
    )
    table = run(conf, "update").stdout
    assert "gpt-4o-mini" in table
    assert table.endswith(
        f"3 figures of 2 models differ from genai-prices {version('genai-prices')}. --apply writes them.\n"
    )
    assert contents(conf.parent) == before


def test_applied_changes_are_in_place_and_only_their_lines_change(conf: Path) -> None:
    before = models_file(conf).read_text(encoding="utf-8")
    done = run(conf, "update", "--apply")
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith(f" They were written to {models_file(conf)}.\n")
    after = models_file(conf).read_text(encoding="utf-8")
    pairs = zip(before.splitlines(), after.splitlines(), strict=True)
    changed = [(old, new) for old, new in pairs if old != new]
    assert ('output_price_per_m = "0.5"  # was', 'output_price_per_m = "0.6"  # was') in changed
    assert len(changed) == 3
    assert run(conf, "update").stdout.startswith("0 figures of 0 models differ")
    again = run(conf, "update", "--apply")
    assert again.exit_code == 0
    assert models_file(conf).read_text(encoding="utf-8") == after


def test_an_overlaid_model_is_named_and_never_changed(conf: Path) -> None:
    (conf.parent / "own").mkdir()
    table = tomllib.loads(models_file(conf).read_text(encoding="utf-8"))["gpt-4o-mini"]
    own = "\n".join(f"{key} = {json.dumps(value)}" for key, value in table.items())
    (conf.parent / "own" / "models.toml").write_text(f'["gpt-4o-mini"]\n{own}\n')
    edit(conf, "", '[paths]\ncatalog_overlay = "own"\n')
    found = json.loads(run(conf, "update", "--apply", "--json").stdout)
    assert [change["slug"] for change in found["changes"]] == ["gpt-4o"]
    assert found["overlaid"] == ["gpt-4o-mini"]
    assert found["written_to"] == str(models_file(conf))
    assert 'output_price_per_m = "0.5"' in (conf.parent / "own" / "models.toml").read_text()
    assert "Yours, in the overlay, and left as they are:\n  gpt-4o-mini\n" in run(conf, "update").stdout


def test_the_shipped_catalog_of_a_deployment_is_never_written(
    deployed: Path, conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = models_file(conf).parent
    for module in ("addon.settings.value_types", "addon.commands.catalog_files"):
        monkeypatch.setattr(f"{module}.SHIPPED_CATALOG", shipped)
    before = contents(shipped)
    overlay = deployed.parent / "catalog" / "models.toml"
    comments = overlay.read_text(encoding="utf-8")
    done = run(deployed, "update", "--apply")
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith(f" They were written to {overlay}.\n")
    text = overlay.read_text(encoding="utf-8")
    assert text.startswith(comments)
    table = tomllib.loads(text)["gpt-4o-mini"]
    original = tomllib.loads(models_file(conf).read_text(encoding="utf-8"))["gpt-4o-mini"]
    assert table == original | {"input_price_per_m": "0.15", "output_price_per_m": "0.6"}
    assert f"# Prices of genai-prices {version('genai-prices')} on " in text
    assert contents(shipped) == before
    assert run(deployed, "update").stdout.startswith("0 figures of 0 models differ")
    edit(deployed, 'catalog_overlay = "catalog"', 'catalog_overlay = ""')
    refused = run(deployed, "update", "--apply")
    assert refused.exit_code == 1
    assert f"set [paths] catalog_overlay in {deployed}" in refused.stderr


def test_an_edit_that_can_not_be_made_changes_nothing(conf: Path) -> None:
    head, rest = models_file(conf).read_text("utf-8").split(MINI)
    quoted = rest.replace("output_price_per_m", '"output_price_per_m"', 1)
    models_file(conf).write_text(head + MINI + quoted, "utf-8")
    before = contents(conf.parent)
    refused = run(conf, "update", "--apply")
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"Error: {models_file(conf)}: can't be edited line by line")
    assert contents(conf.parent) == before


@pytest.mark.parametrize(
    ("line", "old"),
    [("", None), ("context_window = 400_000  # too wide\n", "400000")],
)
def test_a_window_that_lacks_or_is_too_wide_is_written(conf: Path, line: str, old: str | None) -> None:
    assert run(conf, "update", "--apply").exit_code == 0
    stated = "context_window = 131072  # genai-prices, models.dev\n"
    head, hermes, tail = (
        models_file(conf).read_text(encoding="utf-8").partition('["hermes-4-405b-openrouter"]')
    )
    assert stated in tail
    models_file(conf).write_text(head + hermes + tail.replace(stated, line, 1), encoding="utf-8")
    found = json.loads(run(conf, "update", "--json").stdout)["changes"]
    assert [(one["slug"], one["key"], one["old"], one["new"]) for one in found] == [
        ("hermes-4-405b-openrouter", "context_window", old, "131072")
    ]
    assert CliRunner().invoke(catalog, ["check", "--conf", str(conf)]).exit_code == 1
    assert run(conf, "update", "--apply").exit_code == 0
    tables = tomllib.loads(models_file(conf).read_text(encoding="utf-8"))
    assert tables["hermes-4-405b-openrouter"]["context_window"] == 131_072
    assert CliRunner().invoke(catalog, ["check", "--conf", str(conf)]).exit_code == 0


def test_an_announced_price_is_added_with_its_day_and_one_of_hours_is_corrected(conf: Path) -> None:
    before = '[["gemini-3.8-flash".dated]]'
    text = models_file(conf).read_text(encoding="utf-8")
    start = text.index(before)
    end = text.index("# ── MISTRAL")
    wrong = text[:start] + text[end:].replace('input_price_per_m = "1.32"', 'input_price_per_m = "1.5"', 1)
    models_file(conf).write_text(wrong, encoding="utf-8")
    done = run(conf, "update", "--apply", "--json")
    assert done.exit_code == 0, done.output
    found = {(one["slug"], one["key"]): one["new"] for one in json.loads(done.stdout)["changes"]}
    hours = "hours[01:00-04:00,06:00-10:00 mon,tue,wed,thu,fri]"
    assert found.items() >= {
        (("gemini-3.8-flash", "dated[2027-01-01].input_price_per_m"), "1.5"),
        (("gemini-3.8-flash", "dated[2027-01-01].output_price_per_m"), "7.5"),
        (("gemini-3.8-flash", "dated[2027-01-01].cached_input_price_per_m"), "0.15"),
        (("deepseek-v4-pro", f"{hours}.input_price_per_m"), "1.32"),
    }
    assert run(conf, "check").exit_code == 0
    assert before in models_file(conf).read_text(encoding="utf-8")
