"""Recorded provider traffic through the running gateway, read by the official OpenAI SDK.

The fake upstream plays each recorded answer of a known dialect, whole and streamed. An independent reader reads the
recording: the client must get the same text, reasoning, tool calls, finish reason and usage. Streams come in random
pieces, in the recorded pieces, and, if they are short, byte by byte. In an answer of the standard form only the model
may change. TOLLGATE_CORPUS is the folder of recordings.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from conftest import StartGateway
from rig import native_anthropic, native_converse, native_gemini
from rig.configuration import model, provider
from rig.corpus import DIALECTS, needs_corpus, read_corpus
from rig.gateway import Gateway
from rig.large import large, sized
from rig.recorded_families import shipped_families
from rig.replay import Playback, Run, runs_of
from rig.replay_client import HELLO, Outcome, ask_all
from rig.upstream import Upstream
from rig.usage_table import PRICES_USD_PER_MTOK, expected, line_name, table, unnamed_counts

pytestmark = [needs_corpus, large]

SAMPLE = sized(10, 1)
"""One recording of so many."""

KNOWN = {
    "openai-resp-34b9c3849c62858e": "made by hand: a count below zero, which no client gets",
    "vertex-gem-f130df983dc55c07": "made by hand: a stream without a finish reason, for a client one that was cut",
}
"""Recordings that the client may get in another form, with the reason."""

REFUSED = {
    # A provider's own values. The contract has three words and an object that names a function.
    "tool_choice: Input should be 'auto', 'none' or 'required'",
    "tool_choice.type: Field required",
    "tool_choice.type: Input should be 'function'; tool_choice.function: Field required",
    # Tools without a type. The type is a part of the common chat tool schema.
    *("; ".join(f"tools.{number}.type: Field required" for number in range(count)) for count in (1, 5)),
    # Requests that are wrong on purpose. Their providers refused them as well.
    "messages.0.content: Input should be a string or an array of parts",
    "messages.1.content.0.type: Field required; messages.1.content.1.type: Field required",
    "messages: At least one message is required.",
    "messages: Input should be an array",
    "temperature: Input should be a valid number",
    "max_tokens: Input should be greater than 0",
    "tools.0.function.parameters: The parameters of a function must be a JSON schema of type object.",
    "messages.0.role: Input should be one of assistant, developer, function, system, tool, user",
    "messages.0.content.1.image_url.url: must be a data URL or an http(s) URL.",
    # Azure's own models: their server answered 422.
    "does not take a function's name; use 'auto' or 'none' or 'required'.",
    # Tools that the provider runs itself: no hold covers their price.
    " takes tools of type 'function' or 'custom'.",  # a provider runs and bills all other types itself
}
"""Errors for recorded requests that the contract does not allow. The test then sends a plain request."""

NO_FAMILY = {"vercel_gateway/google"}
"""Lines of docs/usage.md without a shipped family, as the page says."""
PROVIDERS = {
    "openai": "TESTER",
    "anthropic": "TESTER_ANTHROPIC",
    "gemini": "TESTER_GEMINI",
    "bedrock": "TESTER_BEDROCK",
    "responses": "TESTER_RESPONSES",
}


def request_body(run: Run) -> dict[str, Any]:
    """Return the recorded request as a chat request, or a plain greeting if there is no such request."""
    request = run.record["request"]
    if request is None:
        return {"messages": HELLO}
    try:
        return IN_CHAT[run.dialect](request)
    except (native_anthropic.NotInChatError, native_converse.NotInChatError):
        return {"messages": HELLO}


IN_CHAT: dict[str, Callable[[Any], dict[str, Any]]] = {
    "openai": dict,
    "anthropic": native_anthropic.chat_request_of,
    "bedrock": native_converse.chat_request_of,
    "responses": lambda _request: {"messages": HELLO},  # its requests are no chat requests
    "gemini": lambda request: native_gemini.chat_request_of(native_gemini.rest_names(request)),
}


@pytest.fixture(scope="module")
def all_runs() -> list[Run]:
    return [run for record in read_corpus(*DIALECTS) for run in runs_of(record)]


@pytest.fixture(scope="module")
def runs(all_runs: list[Run]) -> list[Run]:
    """The runs that are made."""
    return all_runs[::SAMPLE]


@pytest.fixture(scope="module")
def replay_gateway(runs: list[Run], start_gateway: StartGateway, upstreams: dict[str, Any]) -> Gateway:
    base = upstreams["TESTER"].base_url
    models = {
        run.slug: model(
            upstream_model_id=run.upstream_model_id,
            provider=PROVIDERS[run.dialect],
            family=run.family,
            **{f"{name}_price_per_m": price for name, price in PRICES_USD_PER_MTOK.items()},
        )
        for run in runs
    }
    return start_gateway(
        models=models | {"tester-large": model()},
        families=shipped_families(),
        providers={
            name: provider(base, dialect="openai" if dialect == "responses" else dialect)
            for dialect, name in PROVIDERS.items()
        },
    )


@pytest.fixture(scope="module")
def outcomes(runs: list[Run], replay_gateway: Gateway, upstreams: dict[str, Any]) -> list[Outcome]:
    """Return the outcome of each run. The runs happen once for all tests of this file."""
    upstream: Upstream = upstreams["TESTER"]
    upstream.reset()
    upstream.behave(Playback(runs))
    found = asyncio.run(ask_all(replay_gateway, runs, request_body))
    failures = upstream.failures
    upstream.reset()
    assert not failures
    return found


@pytest.mark.parametrize("kind", ["whole", "stream", "error"])
def test_each_recorded_answer_equals_the_reading_of_its_own_reader(
    outcomes: list[Outcome], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [outcome for outcome in outcomes if outcome.run.kind == kind]
    with capsys.disabled():
        print(f"\n{_table(kind, chosen)}")
    problems = {outcome.run.slug: outcome for outcome in chosen if outcome.problem}
    unexpected = [f"{slug}: {made.problem}" for slug, made in problems.items() if made.run.id not in KNOWN]
    assert not unexpected, "\n".join([f"{len(unexpected)} of {len(chosen)} do not pass", *unexpected])
    mended = {outcome.run.id for outcome in chosen} & set(KNOWN) - {made.run.id for made in problems.values()}
    assert not mended, f"these pass now and are no longer exceptions: {mended}"


def _table(kind: str, outcomes: Iterable[Outcome]) -> str:
    made = defaultdict(list)
    for outcome in outcomes:
        made[outcome.run.api, outcome.run.provider].append(outcome)
    rows = [f"{kind:<22}{'provider':<20}{'runs':>6}{'pass':>6}"]
    for (api, name), found in sorted(made.items()):
        rows.append(f"{api:<22}{name:<20}{len(found):>6}{sum(not one.problem for one in found):>6}")
    named = [f"  {one.run.slug}: {KNOWN.get(one.run.id, one.problem)}" for one in outcomes if one.problem]
    return "\n".join([*rows, *named])


def test_each_call_is_one_row_with_the_cost_of_the_table_on_usage(
    outcomes: list[Outcome], replay_gateway: Gateway
) -> None:
    replay_gateway.wait_for_row(lambda row: row["model_slug"] == outcomes[-1].run.slug)
    rows = defaultdict(list)
    for row in replay_gateway.ledger_rows():
        rows[row["model_slug"]].append(row)
    recorded = Counter({slug: len(found) for slug, found in rows.items()})
    assert recorded == Counter(outcome.run.slug for outcome in outcomes)
    answered = [one.run for one in outcomes if one.run.kind != "error" and one.run.id not in KNOWN]
    wrong = [
        f"{run.slug}: {problem}" for run in answered if (problem := _row_difference(run, rows[run.slug][0]))
    ]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(answered)} are recorded wrongly", *wrong])


def _row_difference(run: Run, row: Mapping[str, Any]) -> str | None:
    """Return the difference between the row and the recorded usage block, or None."""
    if (meant := expected(run)) is None:
        return None if row["usage_source"] != "provider" else "counts of the provider, which sent none"
    recorded = {name: row[f"{name}_tokens"] for name in meant.counts}
    if recorded != meant.counts:
        return f"{recorded}, recorded {dict(meant.counts)}"
    if row["retail_nanousd"] != meant.retail_nanousd and line_name(run) not in NO_FAMILY:
        return f"costs {row['retail_nanousd']}, by the table {meant.retail_nanousd}"
    return None if row["usage_source"] == "provider" else f"usage is {row['usage_source']}"


def test_the_table_on_usage_has_every_recorded_provider_and_count(all_runs: list[Run]) -> None:
    answered = [run for run in all_runs if run.kind != "error"]
    assert {line_name(run) for run in answered} == table().keys()
    assert {run.id: unnamed for run in answered if (unnamed := unnamed_counts(run))} == {}


def test_the_families_agree_with_the_table_on_usage_about_reasoning(all_runs: list[Run]) -> None:
    differing = {
        line_name(run)
        for run in all_runs
        if run.kind != "error"
        and shipped_families()[run.family].get("reasoning_beside_completion", False)
        != table()[line_name(run)].is_beside
    }
    assert differing == NO_FAMILY


def test_only_recorded_requests_outside_the_contract_are_refused(outcomes: list[Outcome]) -> None:
    unexpected = [
        f"{outcome.run.slug}: {outcome.refused}"
        for outcome in outcomes
        if outcome.refused and not any(outcome.refused.endswith(said) for said in REFUSED)
    ]
    assert not unexpected, "\n".join(unexpected)


def test_a_recorded_error_status_is_in_the_ledger_row(
    outcomes: list[Outcome], replay_gateway: Gateway
) -> None:
    recorded = {row["model_slug"]: row["status"] for row in replay_gateway.ledger_rows()}
    failed = [outcome.run for outcome in outcomes if outcome.run.status >= 400]
    assert failed
    assert {run.slug: recorded[run.slug] for run in failed} == {run.slug: run.status for run in failed}
