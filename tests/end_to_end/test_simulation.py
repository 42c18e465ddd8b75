"""The whole gateway in one process on a simulated loop: forty calls with all kinds of faults, for many seeds."""

import ast
import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from rig.configuration import PROVIDER_KEY, ROOT, Configuration, model, provider, workspace
from rig.ledger import locked_by_another
from rig.simulation import Faults, Outcome, World, compare, simulate
from rig.simulation.clients import Answer, Client, draw_behaviour
from rig.simulation.gateway import LedgerContents, SimulatedGateway, read_ledger
from rig.simulation.provider import Generated, Provider

from addon.settings.settings import Settings, load_settings
from addon.store.ledger import file as ledger_file

CUSTOMERS = 40
SEEDS = range(20)
TWICE = (0, 7, 13)
BUDGET_NANOUSD = 20_000_000
FIRST_PORT, SECOND_PORT = 20_000, 20_001
CLIENT_LINK = Faults(
    latency_s=(0.0005, 0.1),
    piece_bytes=(50, 3_000),
    buffer_bytes=(2_000, 20_000),
    after_bytes=(0, 2_000),
    reset=0.05,
    stalled=0.1,
    half_closed=0.03,
    slow_connect=0.05,
)
PROVIDER_LINK = Faults(
    latency_s=(0.001, 0.3),
    piece_bytes=(50, 4_000),
    buffer_bytes=(1_000, 20_000),
    after_bytes=(0, 10_000),
    refused=0.05,
    slow_connect=0.1,
    reset=0.1,
    stalled=0.1,
    stall_s=(1, 100),
    half_closed=0.05,
)
KEYS = {name: f"tg_{name:0<40}" for name in ("wallet", "capped")}
"""Fixed keys, so that a seed gives the same run in each process."""
DEAR = {"input_price_per_m": "1", "output_price_per_m": "3", "max_completion_tokens": 2_000}


@dataclass(frozen=True)
class Ran:
    """The result of one run."""

    answers: list[Answer]
    ledger: LedgerContents
    generated: list[Generated]

    def by_call(self) -> dict[str, list[Generated]]:
        """Return what the providers generated, by call."""
        found: defaultdict[str, list[Generated]] = defaultdict(list)
        for generated in self.generated:
            found[generated.call].append(generated)
        return found


@dataclass(frozen=True)
class Disturbance:
    """The disturbances of a run.

    ``stops_after_s``: the gateways drain from then on, for ``drain_timeout_s``. ``killed_after_s``: then the first
    gateway is killed, and another one replaces it a little later.
    """

    gateways: int = 1
    is_ledger_locked: bool = False
    stops_after_s: float | None = None
    drain_timeout_s: float | None = None
    killed_after_s: float | None = None


type Run = Callable[..., Outcome[Ran]]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Two customers with a budget of $0.02 each, one in its wallet and one as its key's cap; two providers."""
    members = {name: workspace((name, key, True), fallback_model="second") for name, key in KEYS.items()}
    members["wallet"] |= {"plan": "standard"}
    members["capped"]["keys"][0] |= {"spend_cap_usd": "0.02"}
    timeouts = {"first_byte_timeout_s": 20, "idle_timeout_s": 10, "whole_timeout_s": 60}
    written = Configuration(
        providers={
            "FIRST": provider(f"http://127.0.0.1:{FIRST_PORT}/v1"),
            "SECOND": provider(f"http://127.0.0.1:{SECOND_PORT}/v1"),
        },
        models={"first": model(provider="FIRST", **DEAR), "second": model(provider="SECOND", **DEAR)},
        workspaces=members,
        sections={"upstream": {"connect_timeout_s": 5, "heartbeat_s": 4} | timeouts},
    ).write(tmp_path_factory.mktemp("simulation"))
    return load_settings(written, {"TEST_PROVIDER_KEY": PROVIDER_KEY})


@pytest.fixture(scope="module")
def run(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a function that makes the calls with a seed, on a new ledger."""

    def make(seed: int, disturbance: Disturbance | None = None) -> Outcome[Ran]:
        database = tmp_path_factory.mktemp("ledger") / "tollgate.db"
        return simulate(
            seed, lambda world: make_calls(world, settings, database, disturbance or Disturbance())
        )

    return make


@pytest.fixture(scope="module")
def runs(run: Run) -> list[Outcome[Ran]]:
    """One run of each seed."""
    return [run(seed) for seed in SEEDS]


async def make_calls(world: World, settings: Settings, database: Path, disturbance: Disturbance) -> Ran:
    """Let customers call at once, each on its own connection. Every third one calls twice."""
    providers = [Provider(world), Provider(world)]
    for one in providers:
        await one.start()
    gateways = [SimulatedGateway(world, settings, database) for _ in range(disturbance.gateways)]
    for gateway in gateways:
        await gateway.start()
        world.network.faults[gateway.port] = CLIENT_LINK
    await gateways[0].credit("wallet", BUDGET_NANOUSD)
    world.network.faults |= {FIRST_PORT: PROVIDER_LINK, SECOND_PORT: PROVIDER_LINK}

    async def customer(number: int) -> list[Answer]:
        key = KEYS["wallet" if number % 2 else "capped"]
        await asyncio.sleep(world.random.uniform(0, 3))
        client = Client(gateways[number // 2 % len(gateways)].port, key, "first")
        numbers = (number,) if number % 3 else (number, number + CUSTOMERS)
        answers = []
        for each in numbers:
            answers.append(await client.call(f"call-{each}", draw_behaviour(world.random)))
            await asyncio.sleep(world.random.uniform(0, 3))
        await client.close()
        return answers

    async def kill_one() -> None:
        if disturbance.killed_after_s is not None:
            await asyncio.sleep(disturbance.killed_after_s)
            await gateways[0].kill()
            await asyncio.sleep(world.random.uniform(0, 2))
            gateways[0] = SimulatedGateway(world, settings, database)
            await gateways[0].start()
            world.network.faults[gateways[0].port] = CLIENT_LINK

    killer = world.loop.create_task(kill_one())
    locker = world.loop.create_task(lock_at_times(world, database, disturbance))
    customers = asyncio.gather(*map(customer, range(CUSTOMERS)))
    await asyncio.wait({customers}, timeout=disturbance.stops_after_s)
    await killer
    for gateway in gateways:
        await gateway.stop(disturbance.drain_timeout_s)
    answers = [one for own in await customers for one in own]
    locker.cancel()
    await asyncio.gather(locker, return_exceptions=True)
    for one in providers:
        await one.stop()
    return Ran(answers, read_ledger(database), [made for one in providers for made in one.log])


async def lock_at_times(world: World, database: Path, disturbance: Disturbance) -> None:
    """Lock the ledger at times, for longer than calls wait."""
    while disturbance.is_ledger_locked:
        await asyncio.sleep(world.random.uniform(0, 2))
        with locked_by_another(database):
            await asyncio.sleep(world.random.uniform(0, 3))


def check_money(ran: Outcome[Ran]) -> None:
    """Check that no limit was exceeded, that wallets and rows agree, and that no hold is left."""
    ledger, cost_nanousd = ran.result.ledger, Counter[str]()
    for row in ledger.rows:
        cost_nanousd[row["workspace"]] += row["retail_nanousd"]
        assert row["usage_source"] != "none" or row["retail_nanousd"] == 0, f"seed {ran.seed}: {row}"
    assert max(cost_nanousd.values(), default=0) <= BUDGET_NANOUSD, f"seed {ran.seed}"
    assert ledger.wallets_nanousd == {"wallet": BUDGET_NANOUSD - cost_nanousd["wallet"]}, f"seed {ran.seed}"
    assert (ledger.holds, ledger.discrepancies) == (0, []), f"seed {ran.seed}"


def check_rows(ran: Outcome[Ran]) -> None:
    """Check that each call that reached a provider has exactly one row."""
    rows_by_call = Counter(row["end_user"] for row in ran.result.ledger.rows)
    assert set(rows_by_call.values()) <= {1}, f"seed {ran.seed}"
    assert ran.result.by_call().keys() <= rows_by_call.keys(), f"seed {ran.seed}"


def check_counts(ran: Outcome[Ran]) -> None:
    """Check that a complete answer has the text of one generation, and that its row has the counts of that one."""
    rows, generated = {row["id"]: row for row in ran.result.ledger.rows}, ran.result.by_call()
    for answer in ran.result.answers:
        if answer.is_complete:
            row = rows[str(answer.request_id)]
            assert (row["end_user"], row["status"]) == (answer.call, 200), f"seed {ran.seed}: {row}"
            made = {(one.prompt_tokens, one.completion_tokens) for one in generated[answer.call]}
            assert len(answer.text) // 4 in {tokens for _, tokens in made}, f"seed {ran.seed}: {row}"
            if row["usage_source"] == "provider":
                assert (row["prompt_tokens"], row["completion_tokens"]) in made, f"seed {ran.seed}: {row}"


def check_leaving(ran: Outcome[Ran]) -> None:
    """Check that no client gets more than its row has, however the call ends, and that no answer was free."""
    rows = {row["id"]: row for row in ran.result.ledger.rows}
    for answer in ran.result.answers:
        if answer.status == 200 and (text := answer.text):
            row = rows[str(answer.request_id)]
            if row["error_code"] == "interrupted" and row["duration_ms"] == 0 and not answer.is_complete:
                continue  # Its process was killed.
            assert row["completion_tokens"] is not None, f"seed {ran.seed}: {row} {text!r}"
            assert len(text) // 4 <= row["completion_tokens"], f"seed {ran.seed}: {row} {len(text)}"
            assert row["retail_nanousd"] > 0, f"seed {ran.seed}: {row}"


CHECKS = (check_money, check_rows, check_counts, check_leaving)


def check_all(ran: Outcome[Ran]) -> Outcome[Ran]:
    """Run all checks, and check that nothing is left and no error was logged."""
    assert (ran.errors, ran.left) == ([], []), f"seed {ran.seed}"
    for check in CHECKS:
        check(ran)
    return ran


def error_codes(runs: list[Outcome[Ran]]) -> set[str | None]:
    """Return the error codes of all rows."""
    return {row["error_code"] for ran in runs for row in ran.result.ledger.rows}


def test_the_same_seed_gives_the_same_answers_and_rows(run: Run, runs: list[Outcome[Ran]]):
    for seed in TWICE:
        assert compare(runs[seed], run(seed)) == "", f"seed {seed}"
    assert len({ran.trace.digest for ran in runs}) == len(SEEDS)


def test_no_task_and_no_connection_is_left_and_nothing_is_logged_as_an_error(runs: list[Outcome[Ran]]):
    for ran in runs:
        assert (ran.errors, ran.left) == ([], []), f"seed {ran.seed}"


def test_no_limit_is_passed_and_no_hold_is_left(runs: list[Outcome[Ran]]):
    for ran in runs:
        check_money(ran)


def test_each_call_that_was_sent_has_exactly_one_row(runs: list[Outcome[Ran]]):
    for ran in runs:
        check_rows(ran)


def test_the_row_of_a_complete_answer_has_the_counts_of_its_provider(runs: list[Outcome[Ran]]):
    for ran in runs:
        check_counts(ran)


def test_no_client_gains_by_leaving(runs: list[Outcome[Ran]]):
    for ran in runs:
        check_leaving(ran)


def test_every_kind_of_end_was_seen(runs: list[Outcome[Ran]]):
    answers = [answer for ran in runs for answer in ran.result.answers]
    rows = [row for ran in runs for row in ran.result.ledger.rows]
    endings = Counter("complete" if answer.is_complete else answer.ending for answer in answers)
    codes = {answer.error_code for answer in answers if answer.ending == "whole"}
    assert endings["complete"] > len(answers) / 4
    assert {"left", "ConnectionResetError", "BrokenMessage"} <= set(endings)
    assert {"payment_required", "upstream_error"} <= codes
    assert {row["usage_source"] for row in rows} == {"provider", "estimated", "none"}
    assert {row["attempts"] for row in rows} == {1, 2}


def test_all_checks_hold_when_a_drain_cuts_off_the_last_calls(run: Run):
    ended = [
        check_all(run(seed, Disturbance(stops_after_s=1 + seed / 2, drain_timeout_s=seed / 3)))
        for seed in range(6)
    ]
    assert "interrupted" in error_codes(ended)


@pytest.mark.parametrize("seed", range(3))
def test_all_checks_hold_when_two_gateways_share_the_budget(run: Run, seed: int):
    ran = check_all(run(seed, Disturbance(gateways=2)))
    assert len({row["id"][:20] for row in ran.result.ledger.rows}) == 2


def test_all_checks_hold_when_a_gateway_is_killed(run: Run):
    ended = [
        check_all(run(seed, Disturbance(gateways=1 + seed % 2, killed_after_s=1 + seed / 2)))
        for seed in range(6)
    ]
    assert "interrupted" in error_codes(ended)


@pytest.mark.parametrize("seed", range(3))
def test_all_checks_hold_when_the_ledger_is_locked_at_times(
    run: Run, seed: int, monkeypatch: pytest.MonkeyPatch
):
    # A locked file is waited for in place first, in real time, which changes nothing here.
    monkeypatch.setattr(ledger_file, "_TRIES_IN_PLACE", 1)
    ran = run(seed, Disturbance(is_ledger_locked=True))
    assert ran.left == []
    assert all("the ledger can't be written, calls are kept" in error for error in ran.errors)
    for check in CHECKS:
        check(ran)


def test_the_modules_of_a_call_use_no_clock_and_no_randomness_of_their_own():
    own = {"time", "random", "secrets", "uuid"}
    files = [file for part in ("calls", "upstream", "wire") for file in (ROOT / "addon" / part).glob("*.py")]
    # The run replaces the random part of request ids.
    files.remove(ROOT / "addon" / "calls" / "request_id.py")
    assert len(files) > 30
    for file in files:
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        imported |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
        called = {
            node.func.attr
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        }
        assert not imported & own, file
        assert "utcnow" not in called and "today" not in called, file
