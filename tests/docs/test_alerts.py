"""The alert rules: one file, which docs/metrics.md repeats, with metrics and labels that the program has.

To add an alert, add it to deploy/prometheus/alerts.yml and to the page.
"""

import shutil
import subprocess
from typing import Any

import pytest
from rig.configuration import ROOT
from rig.promql import find_mistakes, metrics_in
from ruamel.yaml import YAML

FILE = ROOT / "deploy" / "prometheus" / "alerts.yml"
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


def rules() -> list[dict[str, Any]]:
    loaded = YAML(typ="safe").load(FILE.read_text(encoding="utf-8"))
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def test_the_page_shows_the_rules_of_the_file() -> None:
    assert f"```yaml\n{FILE.read_text(encoding='utf-8')}```\n" in PAGE


def test_each_rule_reads_metrics_and_labels_that_exist() -> None:
    found = {rule["alert"]: find_mistakes(rule["expr"]) for rule in rules()}
    assert found == {rule["alert"]: [] for rule in rules()}
    assert all(metrics_in(rule["expr"]) for rule in rules())


def test_prometheus_accepts_the_rules() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt install prometheus)")
    checked = subprocess.run([promtool, "check", "rules", str(FILE)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    ("query", "mistakes"),
    [
        ('sum by (provider) (rate(tollgate_calls_total{status="200"}[5m]))', []),
        ("histogram_quantile(0.9, sum by (le) (rate(tollgate_call_seconds_bucket[5m])))", []),
        ("sum(rate(tollgate_calls[5m]))", ["there is no metric tollgate_calls"]),
        ("tollgate_workers_total", ["there is no metric tollgate_workers_total"]),
        ("rate(tollgate_call_seconds[5m])", ["there is no metric tollgate_call_seconds"]),
        ('tollgate_calls_total{code="200"}', ["tollgate_calls_total has no label code"]),
        ("sum by (code) (tollgate_calls_total)", ["no metric of the query has a label code"]),
        ("tollgate_calls_total{status=200}", ["tollgate_calls_total: status=200 is no selector"]),
        ("sum(http_requests_total)", ["there is no metric http_requests_total"]),
        ("max by (instance) (tollgate_workers) > 0", []),
    ],
)
def test_a_mistake_in_a_query_is_found(query: str, mistakes: list[str]) -> None:
    assert find_mistakes(query) == mistakes
