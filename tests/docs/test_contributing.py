"""CONTRIBUTING.md: its paths exist, and each worked example does what the page says of it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest
from click.testing import CliRunner
from rig.bounds import BOUND_S
from rig.configuration import ROOT

from addon.settings.policy_modules import load_policies
from addon.settings.settings import SettingsFiles
from addon.settings.sources import Sources
from addon.telemetry import metrics
from addon.telemetry.metric_families import FAMILIES, Family

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CONF = """\
[paths]
catalog = "catalog"
workspaces = "workspaces"
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def example(file: str) -> str:
    """Return the one block of Python that begins with the name of ``file``."""
    (found,) = [block for block in blocks("python") if block.startswith(f"# {file}")]
    return found


SURROUNDINGS = {
    "addon/console/views/loaders.py, in LOADERS": """\
from collections.abc import Callable, Mapping
from addon.console.view import Reading, View
from refusals import load_refusals

LOADERS: Mapping[str, Callable[[Reading], View]] = {
EXAMPLE}
""",
    "addon/console/pages.py, in PAGES": """\
from addon.console.pages import Page

PAGES: tuple[Page, ...] = (
EXAMPLE)
""",
    "addon/console/changes/workspaces.py": """\
from collections.abc import Mapping
from addon.console.changes.field import Field
from addon.console.changes.form import Change, Form, RequestedChange
from addon.edits.typed_settings import parse_text

def _plan_rename(asked: RequestedChange) -> Change: raise NotImplementedError
def _read_name(asked: RequestedChange) -> Mapping[str, str]: raise NotImplementedError
EXAMPLE""",
    "addon/telemetry/metric_families.py, in _FAMILIES": """\
from addon.telemetry.metric_families import Family

FAMILIES: tuple[Family, ...] = (
EXAMPLE,)
""",
    "addon/telemetry/metrics.py, a method of Metrics": """\
from addon.telemetry.metrics import Metrics

class Counting(Metrics):
EXAMPLE""",
}
"""What is around an example that is a part of a file, by the start of its first comment."""


def write_examples(folder: Path) -> list[Path]:
    """Write each example as a module that can be checked. Return the files."""
    written = []
    for block in blocks("python"):
        for name, text in re.findall(r"^# ([\w/]+\.py[^\n]*)\n(.*?)(?=^# addon/|\Z)", block, re.M | re.S):
            module = folder / (Path(name).name if name.endswith(".py") else f"part_{len(written)}.py")
            around = next((text for start, text in SURROUNDINGS.items() if name.startswith(start)), "EXAMPLE")
            module.write_text(around.replace("EXAMPLE", indent(text, "    ") if "class " in around else text))
            written.append(module)
    return written


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    """A proxy.conf over a copy of the shipped catalog, to which the examples are added."""
    shutil.copytree(ROOT / "catalog_data", tmp_path / "catalog")
    (tmp_path / "workspaces").mkdir()
    file = tmp_path / "proxy.conf"
    file.write_text(CONF)
    for block in blocks("toml"):
        for name, table in re.findall(r"^# catalog_data/(\w+\.toml)\n(.*?)(?=^# cat|\Z)", block, re.M | re.S):
            with (tmp_path / "catalog" / name).open("a") as catalog:
                catalog.write(f"\n{table}")
    return file


def test_every_example_of_python_passes_the_type_checker(tmp_path: Path) -> None:
    examples = write_examples(tmp_path)
    assert len(examples) == len(SURROUNDINGS) + 3
    # With the cache of the type checker of the whole, this takes a moment.
    checker = [sys.executable, "-m", "mypy", *map(str, examples)]
    checked = subprocess.run(checker, cwd=ROOT, capture_output=True, text=True, timeout=BOUND_S, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_path_that_is_named_exists() -> None:
    named = set(re.findall(r"`((?:addon|tests|docs|catalog_data|policies)/[\w/.]*\w[/\w.]*)`", PAGE))
    examples = {"policies/NAME.py"}
    assert len(named) > 10
    assert {path for path in named - examples if not (ROOT / path).exists()} == set()


def test_the_provider_the_model_and_the_family_load(conf_file: Path) -> None:
    settings = SettingsFiles(conf_file, {"EXAMPLE_API_KEY": "a-key-of-the-test"}).load()
    model = settings.models["example-large"]
    assert (model.provider.name, model.family.name) == ("EXAMPLE", "example")
    assert model.family.cap_field == "max_completion_tokens"


def test_the_policy_loads_as_one_of_an_operator(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "no_small_talk.py").write_text(example("policies/no_small_talk.py"))
    (policy,) = load_policies(("no_small_talk",), tmp_path / "proxy.conf", Sources())
    assert policy.name == "no_small_talk"


def test_the_command_lists_the_families(conf_file: Path) -> None:
    made: dict[str, object] = {}
    exec(compile(example("addon/commands/families.py"), "families.py", "exec"), made)
    result = CliRunner().invoke(made["families"], ["--conf", str(conf_file)])  # type: ignore[arg-type]
    assert result.exit_code == 0, result.output
    assert "example" in result.output.splitlines()


def test_the_metric_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    family: Family = eval(example("addon/telemetry/metric_families.py, in _FAMILIES"))
    monkeypatch.setattr(metrics, "FAMILIES", {**FAMILIES, family.name: family})
    made: dict[str, object] = {}
    exec(example("addon/telemetry/metrics.py, a method of Metrics"), made)
    counting = metrics.Metrics("1.2.3")
    made["count_reload"](counting)  # type: ignore[operator]
    assert b"tollgate_reloads_total 1.0" in counting.render()[1]
