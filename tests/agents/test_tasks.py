"""Agents and libraries do a task with two tools, streamed, on models of every dialect."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rig.agent_settings import AGENTS, CLAUDE_CODE, CODEX, LIBRARIES
from rig.agent_vendors import AgentVendors
from rig.agents import KEY, Agent, Setting
from rig.gateway import Gateway
from rig.large import large_only

from agents.conftest import ALIASED_KEY, MODELS

type DoTask = Callable[..., None]

SMOKE = ((CLAUDE_CODE, "chat"), (CODEX, "anthropic"))


@pytest.fixture
def do_task(
    programs: Path, agents_gateway: Gateway, vendors: AgentVendors, tmp_path: Path, folder: Path
) -> DoTask:
    """Let an agent do the task on a model, and check all that can be seen of it."""

    def run_it(agent: Agent, model: str, key: str = KEY, *, forgets: bool = False) -> None:
        vendors.lead(*agent.steps_in(folder))
        setting = Setting(agents_gateway.url, key, model)
        run = agent.start(programs, setting, tmp_path / "home", folder).finish()
        word = (folder / "note.txt").read_text("utf-8").strip()
        copy = folder / "copy.txt"
        copied = copy.read_text("utf-8").strip() if copy.exists() else None
        faults = (vendors.refusals, vendors.missing_tools, set() if forgets else vendors.forgotten)
        assert (run.code, copied, *faults) == (0, word, [], [], set()), run.shown
        assert word in run.output, run.shown

    return run_it


@pytest.mark.parametrize(("agent", "dialect"), SMOKE, ids=lambda one: getattr(one, "title", one))
def test_the_most_frequent_agents_do_their_task(do_task: DoTask, agent: Agent, dialect: str) -> None:
    do_task(agent, MODELS[dialect], forgets=dialect in agent.forgets)


@large_only
@pytest.mark.parametrize("dialect", MODELS)
@pytest.mark.parametrize("agent", [*AGENTS, *LIBRARIES], ids=lambda agent: agent.title)
def test_an_agent_does_its_task(do_task: DoTask, agent: Agent, dialect: str) -> None:
    do_task(agent, MODELS[dialect], forgets=dialect in agent.forgets)


UNSET = replace(CLAUDE_CODE, command=[word for word in CLAUDE_CODE.command if "model" not in word])
"""Claude Code with the model that it chooses itself."""


@large_only
@pytest.mark.parametrize("agent", [UNSET, CODEX], ids=lambda agent: agent.title)
def test_an_agent_works_with_the_names_of_its_vendor(do_task: DoTask, agent: Agent) -> None:
    """Codex offers all of its tools only to models that it knows by their names.

    Claude Code sends back no thinking of an answer whose ``model`` is not the name that it asked for.
    """
    do_task(agent, "gpt-5.5", ALIASED_KEY, forgets=agent is UNSET)
