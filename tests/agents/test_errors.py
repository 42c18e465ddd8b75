"""What agents do with errors: they stop where no repeating helps, show the message, and go on where it helps."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import StartGateway
from rig.agent_settings import CLAUDE_CODE, CODEX, OPENCODE_CHAT, OPENCODE_MESSAGES
from rig.agent_vendors import AgentVendors
from rig.agents import KEY, Agent, Run, Setting
from rig.configuration import model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.large import large_only
from rig.scripts import RESET, UNTIL_CLIENT_LEAVES, Script, chunk, chunked, event, whole
from rig.strict_vendors import base_url
from rig.upstream import Upstream

from agents.conftest import table

pytestmark = large_only

MODEL, OWN_KEY_ONLY = "plain", "own-key-only"
POOR = new_key()
AGENTS = [CLAUDE_CODE, CODEX, OPENCODE_CHAT, OPENCODE_MESSAGES]
CAPPED = {agent.title: new_key() for agent in AGENTS}
"""A key for each agent, of a workspace whose budget ends with its first answer."""
ROW: dict[str, Any] = {
    "provider": "DEEPSEEK",
    "upstream_model_id": "deepseek-v4-pro",
    "family": "deepseek",
    "input_price_per_m": "10",
    "output_price_per_m": "10",
    "max_completion_tokens": 384_000,
}


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, strict: Upstream) -> Iterator[Gateway]:
    return start_gateway(
        providers={"DEEPSEEK": provider(base_url(strict.base_url, "DEEPSEEK"))},
        models={MODEL: model(**ROW), OWN_KEY_ONLY: model(**ROW, byok_only=True)},
        families=table("families.toml"),
        workspaces={
            "acme": workspace(("ci", KEY, True)),
            "poor": workspace(("ci", POOR, True), plan="standard", name="Poor"),
        }
        | {
            f"capped-{title}": workspace(("ci", key, True), name=title, monthly_spend_cap_usd="0.6")
            for title, key in CAPPED.items()
        },
    )


@dataclass(frozen=True)
class Done:
    """A run, with the statuses of its calls that had tools, and whether the copy was made."""

    run: Run
    statuses: list[int]
    is_copied: bool


type Try = Callable[..., Done]


@pytest.fixture
def attempt(programs: Path, gateway: Gateway, vendors: AgentVendors, tmp_path: Path, folder: Path) -> Try:
    """Let an agent do the task while the vendor fails, or with another key or model."""

    def run_it(
        agent: Agent, *failures: Script, key: str = KEY, slug: str = MODEL, uses_all: bool = False
    ) -> Done:
        vendors.lead(*agent.steps_in(folder))
        vendors.failures, vendors.uses_all = list(failures), uses_all
        logged = len(gateway.logs)
        run = agent.start(programs, Setting(gateway.url, key, slug), tmp_path / "home", folder).finish()
        statuses = [line["status"] for line in gateway.logs[logged:] if "status" in line]
        return Done(run, statuses, (folder / "copy.txt").exists())

    return run_it


def failure(status: int, *headers: tuple[str, str]) -> Script:
    return whole({"error": {"message": "The vendor is busy.", "type": "x"}}, status, headers)


BROKEN = chunked(event(chunk("hel")), RESET)


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.title)
def agent(request: pytest.FixtureRequest) -> Agent:
    made: Agent = request.param
    return made


MOST = 6
"""Codex sends a call six times with most statuses."""


@pytest.mark.parametrize(
    ("key", "slug", "status", "words"),
    [
        (new_key(), MODEL, 401, "Incorrect API key provided"),
        (POOR, MODEL, 402, "Insufficient API credits"),
        (KEY, OWN_KEY_ONLY, 403, "is served with your own DEEPSEEK key only"),
        (KEY, "no-such-model", 400, "No model of that name"),
    ],
    ids=["401", "402", "403", "400"],
)
def test_an_agent_stops_and_shows_why(
    attempt: Try, agent: Agent, key: str, slug: str, status: int, words: str
) -> None:
    done = attempt(agent, key=key, slug=slug)
    assert done.run.code not in (0, None) and words in done.run.shown
    assert set(done.statuses) == {status} and len(done.statuses) <= MOST


def test_a_budget_that_ends_in_the_middle_of_a_session(attempt: Try, agent: Agent) -> None:
    done = attempt(agent, key=CAPPED[agent.title], uses_all=True)
    words = ("Monthly spend limit reached", "Insufficient budget")
    assert done.run.code not in (0, None) and any(word in done.run.shown for word in words)
    assert (done.statuses[0], done.statuses[-1]) == (200, 402) and done.statuses.count(402) <= MOST


@pytest.mark.parametrize(
    "script",
    [
        failure(429, ("Retry-After", "1")),
        failure(503),
        BROKEN,
        chunked(event(chunk("hel")), event({"error": {"message": "Overloaded.", "code": 503}})),
    ],
    ids=["429", "503", "reset", "error in the stream"],
)
def test_an_agent_goes_on_after_a_failure_that_passes(attempt: Try, agent: Agent, script: Script) -> None:
    if agent is OPENCODE_CHAT and script is BROKEN:
        pytest.skip("opencode reads the message of a chat stream's error, and stops")
    done = attempt(agent, script)
    assert (done.run.code, done.is_copied) == (0, True)
    assert [status for status in done.statuses if status != 200], "the agent saw no failure"


def test_an_agent_that_is_interrupted_leaves_its_call(
    programs: Path, gateway: Gateway, vendors: AgentVendors, tmp_path: Path, folder: Path, agent: Agent
) -> None:
    vendors.lead(*agent.steps_in(folder))
    vendors.failures = [chunked(event(chunk("hel")), UNTIL_CLIENT_LEAVES)]
    rows = len(gateway.ledger_rows())
    running = agent.start(programs, Setting(gateway.url, KEY, MODEL), tmp_path / "home", folder)
    gateway.wait_until(lambda: not vendors.failures)
    running.interrupt()
    assert running.finish().code is not None
    gateway.wait_until(lambda: any(row["status"] == 499 for row in gateway.ledger_rows()[rows:]))
