"""Agents and libraries do a task with two tools, streamed, on models of every dialect."""

from collections.abc import Callable
from pathlib import Path

import pytest
from rig.agent_vendors import AgentVendors
from rig.agents import AGENTS, CLAUDE_CODE, CODEX, KEY, LIBRARIES, Agent, Setting
from rig.gateway import Gateway
from rig.large import large_only

from agents.conftest import MODELS

type DoTask = Callable[[Agent, str], None]

SMOKE = ((CLAUDE_CODE, "chat"), (CODEX, "anthropic"))


@pytest.fixture
def do_task(
    programs: Path, agents_gateway: Gateway, vendors: AgentVendors, tmp_path: Path, folder: Path
) -> DoTask:
    """Let an agent do the task on the model of a dialect, and check all that can be seen of it."""

    def run_it(agent: Agent, dialect: str) -> None:
        vendors.lead(*agent.steps_in(folder))
        setting = Setting(agents_gateway.url, KEY, MODELS[dialect])
        run = agent.start(programs, setting, tmp_path / "home", folder).finish()
        word = (folder / "note.txt").read_text("utf-8").strip()
        copy = folder / "copy.txt"
        copied = copy.read_text("utf-8").strip() if copy.exists() else None
        faults = (vendors.refusals, vendors.missing_tools)
        assert (run.code, copied, *faults) == (0, word, [], []), run.shown
        assert word in run.output, run.shown

    return run_it


@pytest.mark.parametrize(("agent", "dialect"), SMOKE, ids=lambda one: getattr(one, "title", one))
def test_the_most_frequent_agents_do_their_task(do_task: DoTask, agent: Agent, dialect: str) -> None:
    do_task(agent, dialect)


@large_only
@pytest.mark.parametrize("dialect", MODELS)
@pytest.mark.parametrize("agent", [*AGENTS, *LIBRARIES], ids=lambda agent: agent.title)
def test_an_agent_does_its_task(do_task: DoTask, agent: Agent, dialect: str) -> None:
    do_task(agent, dialect)
