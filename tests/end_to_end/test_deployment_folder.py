"""A deployment folder outside the checkout is served, and an upgrade of the program leaves it as it is."""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from rig.bounds import BOUND_S
from rig.configuration import CLI, ROOT, Configuration, environment
from rig.gateway import Gateway
from rig.large import large_only
from rig.processes import shown_keys
from rig.settings_files import contents, edit, replace

CHAT = "/v1/chat/completions"
OWN_MODEL = """\
["sandbox-chat"]
provider = "SANDBOX"
upstream_model_id = "sandbox-chat-001"
family = "sandbox"
input_price_per_m = "1"
output_price_per_m = "2"
max_completion_tokens = 64

["sandbox-reasoner"]
active = false
"""
POLICY = """\
from policies.refusal import Refusal

def review(call):
    if call.last_user_text == "refuse this":
        raise Refusal("validation_failed", "refused by the folder's policy")
"""


@dataclass
class Deployed(Configuration):
    """A deployment folder, served by the program in ``checkout``."""

    providers: dict[str, Any] = field(default_factory=dict)
    models: dict[str, Any] = field(default_factory=dict)
    program: tuple[str, ...] = CLI

    def write(self, folder: Path) -> Path:
        """Return the folder's proxy.conf; ``tollgate init`` has written it."""
        return folder / "proxy.conf"


def serve(checkout: Path, folder: Path) -> Gateway:
    return Gateway(Deployed(environment={"PYTHONPATH": str(checkout)}), folder, {})


def models_of(gateway: Gateway) -> dict[str, Any]:
    rows = httpx.get(f"{gateway.url}/v1/models", timeout=BOUND_S, trust_env=False).json()
    return {row["modelSlug"]: row for row in rows}


def ask(gateway: Gateway, key: str, text: str) -> httpx.Response:
    body = {"model": "sandbox-chat", "messages": [{"role": "user", "content": text}]}
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.post(gateway.url + CHAT, headers=headers, json=body, timeout=BOUND_S, trust_env=False)


def _break_and_mend(gateway: Gateway, file: Path) -> None:
    """Break a file of the overlay: readiness, log and metric name it until it is mended."""
    text = file.read_text()
    replace(file, f"{text}[broken")
    line = gateway.wait_for_log(lambda line: line.get("event") == "file broken")
    assert line["file"] == str(file)
    assert gateway.readiness().json()["checks"]["settings"].startswith(f"{file}: is not TOML")
    metrics_url = f"{gateway.admin_url}/metrics"
    sample = 'tollgate_broken_files{file="catalog/models.toml"} 1'
    gateway.wait_until(lambda: sample in httpx.get(metrics_url, timeout=BOUND_S, trust_env=False).text)
    replace(file, text)
    gateway.wait_for_log(lambda line: line.get("event") == "file mended")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the program that the tests may upgrade."""
    copy = tmp_path_factory.mktemp("program")
    for name in ("addon", "policies", "catalog_data"):
        shutil.copytree(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def folder(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment folder with an overlay and a policy."""
    made = tmp_path_factory.mktemp("deployment") / "gateway"
    command = [sys.executable, *CLI, "init", str(made)]
    variables = environment({"PYTHONPATH": str(checkout)})
    subprocess.run(command, env=variables, cwd=made.parent, check=True, capture_output=True, timeout=BOUND_S)
    (made / "catalog" / "models.toml").write_text(OWN_MODEL)
    (made / "policies" / "folders_own.py").write_text(POLICY)
    edit(made / "proxy.conf", "port = 8080", "port = 0")
    edit(made / "proxy.conf", "port = 8081", "port = 0")
    edit(made / "proxy.conf", "extra = []", 'extra = ["folders_own"]')
    return made


@pytest.fixture(scope="module")
def key(checkout: Path, folder: Path) -> str:
    """The key of the first run."""
    before = contents(checkout)
    with serve(checkout, folder) as gateway:
        gateway.wait_until(lambda: bool(shown_keys("\n".join(gateway.stderr_lines))))
        [shown] = shown_keys("\n".join(gateway.stderr_lines))
        answer = ask(gateway, shown, "Hello")
        assert answer.status_code == 200, answer.text
        refused = ask(gateway, shown, "refuse this")
        assert refused.json()["error"]["message"] == "refused by the folder's policy"
        models = models_of(gateway)
    assert float(models["sandbox-chat"]["outputPricePerMRetail"]) == pytest.approx(2.08)
    assert "sandbox-reasoner" not in models
    changed = {file for file, content in contents(checkout).items() if before.get(file) != content}
    assert {file.suffix for file in changed} <= {".pyc"}, "the program's own folder must stay as it is"
    return shown


def test_the_folder_is_served_with_its_demo_overlay_policy_and_state(key: str, folder: Path) -> None:
    assert (folder / "policies/workspaces/demo.toml").exists()
    assert (folder / "var/tollgate.db").exists()
    assert key not in b"".join(contents(folder).values()).decode(errors="replace")


@large_only
def test_an_upgrade_brings_the_new_catalog_and_changes_nothing_in_the_folder(
    key: str, checkout: Path, folder: Path
) -> None:
    shipped = checkout / "catalog_data" / "models.toml"
    text = shipped.read_text(encoding="utf-8")
    text = text.replace('output_price_per_m = "0.6"', 'output_price_per_m = "0.7"')
    text, removed = re.subn(r'\["gpt-4\.1-mini"\].*?\n\n', "", text, flags=re.DOTALL)
    assert removed == 1
    new = OWN_MODEL.split("\n\n")[0].replace("sandbox-chat", "shipped-later")
    shipped.write_text(f"{text}\n{new}\n", encoding="utf-8")
    before = {file: content for file, content in contents(folder).items() if "var" not in file.parts}
    with serve(checkout, folder) as gateway:
        models = models_of(gateway)
        assert ask(gateway, key, "Hello again").status_code == 200
        named = gateway.wait_for_log(lambda line: line.get("event") == "prices changed")["message"]
        _break_and_mend(gateway, folder / "catalog" / "models.toml")
    assert "; gpt-4o-mini: output_price_per_m 0.6 → 0.7" in named.replace("prices changed: ", "; ")
    assert "sandbox-chat" not in named
    assert "shipped-later" in models
    assert "gpt-4.1-mini" not in models
    assert float(models["gpt-4o-mini"]["outputPricePerMRetail"]) == pytest.approx(0.728)
    assert float(models["sandbox-chat"]["outputPricePerMRetail"]) == pytest.approx(2.08)
    assert "sandbox-reasoner" not in models
    after = {file: content for file, content in contents(folder).items() if "var" not in file.parts}
    assert after == before
    assert [row["status"] for row in gateway.ledger_rows()] == [200, 200]
