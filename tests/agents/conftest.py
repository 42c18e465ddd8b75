"""Fixtures: the installed programs, and a gateway between them and strict vendors of every dialect."""

import secrets
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import StartGateway
from rig.agent_vendors import AgentVendors
from rig.agents import KEY, installed_agents
from rig.configuration import ROOT, new_key, provider, workspace
from rig.gateway import Gateway
from rig.large import sized
from rig.strict_vendors import base_url
from rig.upstream import Upstream

NO_AGENT = "NO AGENT WAS TESTED"
MODELS = {
    "chat": "deepseek-v4-pro",
    "responses": "gpt-5.5",
    "anthropic": "claude-opus-5-5",
    "gemini": "gemini-3.8-flash",
    "bedrock": "claude-opus-4-8-bedrock",
}
"""A model of each dialect."""
ALIASED_KEY = new_key()
"""The key of a workspace in which the names of two vendors' models stand for another one."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly when no agent was tested: a skipped test is easy to miss."""
    for report in terminalreporter.getreports("skipped"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        if NO_AGENT in reason:
            terminalreporter.write_sep("!", reason.removeprefix("Skipped: "), yellow=True, bold=True)
            return


def table(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / "catalog_data" / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder with the programs. The whole suite runs two of them, and skips that where they can't be had."""
    is_suite = sized(True, False)
    try:
        return installed_agents(frequent=is_suite)
    except RuntimeError as error:
        reason = str(error)
    if is_suite:
        pytest.skip(f"{NO_AGENT}: {reason}")
    pytest.fail(reason, pytrace=False)


@pytest.fixture(scope="module")
def vendors() -> AgentVendors:
    return AgentVendors()


@pytest.fixture(scope="module")
def strict(vendors: AgentVendors) -> Iterator[Upstream]:
    """The upstream of all providers."""
    with Upstream() as upstream:
        upstream.behave(vendors)
        yield upstream


@pytest.fixture(scope="module")
def agents_gateway(start_gateway: StartGateway, strict: Upstream) -> Gateway:
    """A gateway whose catalog is a part of the shipped one."""
    shipped, models = table("providers.toml"), table("models.toml")
    chosen = {slug: models[slug] for slug in MODELS.values()}
    return start_gateway(
        providers={
            name: provider(base_url(strict.base_url, name), dialect=shipped[name]["dialect"])
            for name in {row["provider"] for row in chosen.values()}
        },
        models=chosen,
        families=table("families.toml"),
        workspaces={
            "acme": workspace(("ci", KEY, True)),
            "aliased": workspace(
                ("ci", ALIASED_KEY, True),
                name="Aliased",
                aliases=[{"name": name, "model": MODELS["chat"]} for name in ("claude-*", "gpt-*")],
            ),
        },
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a task, with the note."""
    made = tmp_path / "task"
    made.mkdir()
    (made / "note.txt").write_text(f"word-{secrets.token_hex(4)}\n", encoding="utf-8")
    return made
