"""The files of deploy/ are well-formed and agree with the program, with each other and with docs/deploying.md."""

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rig.configuration import ROOT
from rig.promql import find_mistakes, metrics_in
from ruamel.yaml import YAML

from addon import VERSION
from addon.settings.conf_schema import Listen
from addon.settings.settings import load_conf
from addon.telemetry.metric_families import FAMILIES

DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
UNIT = DEPLOY / "systemd" / "tollgate.service"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
YAML_FILES = sorted([*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.yml")])
CONFS = sorted(DEPLOY.rglob("proxy.conf"))
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))


def documents(file: Path) -> list[Any]:
    return list(YAML(typ="safe").load_all(file.read_text(encoding="utf-8")))


def queries_in(value: Any) -> Iterator[str]:
    """Yield each PromQL query of a dashboard."""
    if isinstance(value, dict):
        yield from (value[name] for name in ("expr", "definition") if name in value)
        for one in value.values():
            yield from queries_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from queries_in(one)


def settings_of(unit: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", unit, re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.name)
def test_a_dashboard_reads_metrics_and_labels_that_exist(file: Path) -> None:
    board = json.loads(file.read_text(encoding="utf-8"))
    queries = set(queries_in(board))
    assert {query: find_mistakes(query) for query in queries} == {query: [] for query in queries}
    shown = set().union(*(metrics_in(query) for query in queries))
    areas = ("calls", "refusals", "tokens", "cost_usd", "circuits_open", "platform_keys", "store", "workers")
    assert [area for area in areas if not any(f"tollgate_{area}" in name for name in shown)] == []
    legends = [
        (target["expr"], label)
        for panel in board["panels"]
        for target in panel.get("targets", [])
        for label in re.findall(r"{{(\w+)}}", target.get("legendFormat", ""))
    ]
    known = {label for family in FAMILIES.values() for label in family.labels}
    assert [(query, label) for query, label in legends if label not in known or label not in query] == []
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("file", YAML_FILES, ids=lambda file: str(file.relative_to(DEPLOY)))
def test_each_yaml_file_loads_and_is_named_on_the_page(file: Path) -> None:
    assert all(document for document in documents(file))
    folder = file.relative_to(DEPLOY).parts[0]
    assert f"deploy/{folder}" in PAGE


@pytest.mark.parametrize("file", CONFS, ids=lambda file: str(file.relative_to(DEPLOY)))
def test_each_proxy_conf_is_valid(file: Path) -> None:
    conf = load_conf(file)
    assert (conf.listen.port, conf.admin.port) == (8080, 8081)


@pytest.mark.parametrize("file", CONFS, ids=lambda file: str(file.relative_to(DEPLOY)))
def test_a_console_that_is_not_on_loopback_asks_for_a_password_of_the_shipped_secrets(file: Path) -> None:
    admin = tomllib.loads(file.read_text(encoding="utf-8"))["admin"]
    assert admin["host"] == "0.0.0.0"
    kind, _, name = admin["console_password"].partition(":")
    assert kind == "env"
    secrets = {"gateway": "compose.env.example", "kubernetes": "kubernetes/secret.example.yaml"}
    text = (DEPLOY / secrets[file.parent.name]).read_text(encoding="utf-8")
    assert re.search(rf"^ *{name}[:=]", text, re.MULTILINE)
    assert name in PAGE


def test_the_image_has_the_version_of_the_program_and_does_not_run_as_root() -> None:
    assert f'image.version="{VERSION}"' in CONTAINERFILE
    assert f"tollgate:{VERSION}" in (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    [images] = documents(DEPLOY / "kubernetes" / "kustomization.yaml")[0]["images"]
    assert images["newTag"] == VERSION
    instructions = [line.split()[0] for line in CONTAINERFILE.splitlines() if re.match("[A-Z]+ ", line)]
    assert instructions.count("FROM") == 2
    assert "USER 10001:10001" in CONTAINERFILE


def test_both_builders_ignore_the_same_files_and_send_all_that_is_copied() -> None:
    lists = [
        [line for line in file.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
        for file in (ROOT / ".containerignore", DEPLOY / "Containerfile.dockerignore")
    ]
    assert lists[0] == lists[1]
    sent = {line.removeprefix("!") for line in lists[0] if line.startswith("!")}
    copied = set(re.findall(r"^COPY (\S+) \S+$", CONTAINERFILE, re.MULTILINE))
    assert copied == sent


def test_the_services_of_compose_read_files_that_exist() -> None:
    [compose] = documents(DEPLOY / "compose.yaml")
    mounted = [
        volume.split(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", [])
        if volume.startswith("./")
    ]
    assert mounted
    assert [path for path in mounted if not (DEPLOY / path).is_dir()] == []
    example = (DEPLOY / "compose.env.example").read_text(encoding="utf-8")
    needed = re.findall(r"\$\{(\w+):\?", (DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    assert [name for name in set(needed) if f"\n{name}=" not in example] == []
    secrets = [
        line for line in example.splitlines() if not line.startswith("#") and line and not line.endswith("=")
    ]
    assert secrets == []


def test_kubernetes_waits_longer_than_the_drain_and_probes_pages_that_exist() -> None:
    conf = tomllib.loads((DEPLOY / "kubernetes" / "proxy.conf").read_text(encoding="utf-8"))
    [deployment] = documents(DEPLOY / "kubernetes" / "deployment.yaml")
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    pause_s = int(container["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert pod["terminationGracePeriodSeconds"] > pause_s + conf["listen"]["drain_timeout_s"]
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]
    assert [probe["path"] for probe in probes] == ["/healthz", "/healthz", "/readyz"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": conf["listen"]["port"], "admin": conf["admin"]["port"]}
    listed = documents(DEPLOY / "kubernetes" / "kustomization.yaml")[0]["resources"]
    assert [name for name in listed if not (DEPLOY / "kubernetes" / name).is_file()] == []


@pytest.mark.parametrize("folder", ["gateway", "kubernetes"])
def test_money_is_in_postgresql_and_its_url_is_a_secret_that_is_given(folder: str) -> None:
    conf = tomllib.loads((DEPLOY / folder / "proxy.conf").read_text(encoding="utf-8"))
    urls = [conf["state"]["redis_url"], conf["ledger"]["url"]]
    assert (conf["state"]["backend"], urls) == ("redis", ["env:REDIS_URL", "env:LEDGER_URL"])
    given = {"gateway": "compose.yaml", "kubernetes": "kubernetes/secret.example.yaml"}[folder]
    text = (DEPLOY / given).read_text(encoding="utf-8")
    assert [url for url in urls if not re.search(f"^ +{url[4:]}: ", text, re.MULTILINE)] == []


def test_the_pods_of_kubernetes_are_several_and_keep_nothing() -> None:
    [deployment] = documents(DEPLOY / "kubernetes" / "deployment.yaml")
    spec = deployment["spec"]
    assert spec["replicas"] > 1
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    kinds = {kind for volume in spec["template"]["spec"]["volumes"] for kind in volume if kind != "name"}
    assert kinds == {"configMap", "emptyDir"}
    [budget] = documents(DEPLOY / "kubernetes" / "poddisruptionbudget.yaml")
    assert budget["spec"]["selector"] == spec["selector"]


def test_the_unit_waits_longer_than_the_drain_and_gives_no_rights() -> None:
    unit = settings_of(UNIT.read_text(encoding="utf-8"))
    drain_s = Listen().drain_timeout_s
    assert int(unit["TimeoutStopSec"][0]) > drain_s
    assert unit["NoNewPrivileges"] == ["yes"]
    assert unit["ProtectSystem"] == ["strict"]
    assert unit["CapabilityBoundingSet"] == [""]
    assert unit["User"] == ["tollgate"]
    assert unit["LimitCORE"] == ["0"]


def test_the_lines_for_a_takeover_on_the_page_are_those_of_the_unit() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    shown = page.split("\n### systemd\n")[1].split("```ini\n")[1].split("```")[0].splitlines()
    assert [line for line in shown if line not in UNIT.read_text(encoding="utf-8").splitlines()] == []


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    # It looks for the program and the page, which are elsewhere here.
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/tollgate", str(ROOT)))
    checked = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_prometheus_accepts_its_configuration() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt install prometheus)")
    file = DEPLOY / "prometheus" / "prometheus.yml"
    checked = subprocess.run([promtool, "check", "config", str(file)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
