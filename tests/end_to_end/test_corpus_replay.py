"""Recorded provider traffic through the running gateway, read by the official OpenAI SDK.

Every recorded answer in a shape that a dialect speaks, whole and streamed, is played by the fake upstream and must
reach the client as its own independent reader tells it: text, reasoning, tool calls, finish reason and usage. Streams
come in pieces cut at random, also as they were recorded, and short ones byte by byte. What is in the standard form
must not change but for the model. The folder of recordings is named by TOLLGATE_CORPUS.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from conftest import StartGateway
from rig import native_anthropic, native_gemini
from rig.configuration import model, provider
from rig.corpus import DIALECTS, needs_corpus, read_corpus
from rig.gateway import Gateway
from rig.recorded_families import shipped_families
from rig.replay import Playback, Run, runs_of
from rig.replay_client import HELLO, Outcome, ask_all
from rig.upstream import Upstream
from rig.usage_table import PRICES_USD_PER_MTOK, expected, line_name, table, unnamed_counts

pytestmark = needs_corpus

KNOWN = {
    "vertex-gem-f130df983dc55c07": "made by hand: a stream without a finish reason, for a client one that was cut",
}
"""Recordings that do not come back as they are told, and why that is accepted."""

REFUSED = {
    # A provider's own values: the contract knows three words, and an object that names a function.
    "tool_choice: Input should be 'auto', 'none' or 'required'",
    "tool_choice.type: Field required",
    "tool_choice.type: Input should be 'function'; tool_choice.function: Field required",
    # Tools without a type, which is a part of the common chat tool schema.
    *("; ".join(f"tools.{number}.type: Field required" for number in range(count)) for count in (1, 5)),
    # Requests that were recorded because they are wrong; their providers refused them too.
    "messages.0.content: Input should be a string or an array of parts",
    "messages.1.content.0.type: Field required; messages.1.content.1.type: Field required",
    "messages: At least one message is required.",
    "messages: Input should be an array",
    "temperature: Input should be a valid number",
    "max_tokens: Input should be greater than 0",
    "tools.0.function.parameters: The parameters of a function must be a JSON schema of type object.",
    "messages.0.role: Input should be one of assistant, developer, function, system, tool, user",
    "messages.0.content.1.image_url.url: must be a data URL or an http(s) URL.",
    # Azure's own models, whose server answered 422 to it.
    "does not take a function's name; use 'auto' or 'none' or 'required'.",
    # Tools that the provider runs itself, at a price that nobody holds.
    " takes tools of type 'function' or 'custom'.",  # a provider runs and bills any other by itself
}
"""What the gateway says to recorded requests that the contract does not allow; a plain one is sent instead."""

NO_FAMILY = {"vercel_gateway/google"}
"""Lines of docs/usage.md for which no family is shipped, as the page says."""
PROVIDERS = {"openai": "TESTER", "anthropic": "TESTER_ANTHROPIC", "gemini": "TESTER_GEMINI"}


def asked(run: Run) -> dict[str, Any]:
    """The recorded request in the chat shape; a plain hello where it was not recorded, or chat has no words for it."""
    request = run.record["request"]
    if request is None:
        return {"messages": HELLO}
    try:
        return IN_CHAT[run.dialect](request)
    except native_anthropic.NotInChatError:
        return {"messages": HELLO}


IN_CHAT: dict[str, Callable[[Any], dict[str, Any]]] = {
    "openai": dict,
    "anthropic": native_anthropic.chat_request_of,
    "gemini": lambda request: native_gemini.chat_request_of(native_gemini.rest_names(request)),
}


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [run for record in read_corpus(*DIALECTS) for run in runs_of(record)]


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
        providers={name: provider(base, dialect=dialect) for dialect, name in PROVIDERS.items()},
    )


@pytest.fixture(scope="module")
def outcomes(runs: list[Run], replay_gateway: Gateway, upstreams: dict[str, Any]) -> list[Outcome]:
    """What became of every run. It runs once for all tests of this file."""
    upstream: Upstream = upstreams["TESTER"]
    upstream.reset()
    upstream.behave(Playback(runs))
    found = asyncio.run(ask_all(replay_gateway, runs, asked))
    failures = upstream.failures
    upstream.reset()
    assert not failures
    return found


@pytest.mark.parametrize("kind", ["whole", "stream", "error"])
def test_every_recorded_answer_comes_back_as_its_own_reader_tells_it(
    outcomes: list[Outcome], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [outcome for outcome in outcomes if outcome.run.kind == kind]
    with capsys.disabled():
        print(f"\n{_table(kind, chosen)}")
    problems = {outcome.run.slug: outcome for outcome in chosen if outcome.problem}
    unexpected = [f"{slug}: {made.problem}" for slug, made in problems.items() if made.run.id not in KNOWN]
    assert not unexpected, "\n".join([f"{len(unexpected)} of {len(chosen)} do not pass", *unexpected])
    mended = {outcome.run.id for outcome in chosen} & set(KNOWN) - {made.run.id for made in problems.values()}
    assert not mended, f"these pass now and are no exceptions any more: {mended}"


def _table(kind: str, outcomes: Iterable[Outcome]) -> str:
    made = defaultdict(list)
    for outcome in outcomes:
        made[outcome.run.api, outcome.run.provider].append(outcome)
    rows = [f"{kind:<22}{'provider':<20}{'runs':>6}{'pass':>6}"]
    for (api, name), found in sorted(made.items()):
        rows.append(f"{api:<22}{name:<20}{len(found):>6}{sum(not one.problem for one in found):>6}")
    named = [f"  {one.run.slug}: {KNOWN.get(one.run.id, one.problem)}" for one in outcomes if one.problem]
    return "\n".join([*rows, *named])


def test_every_call_is_one_row_and_costs_what_the_table_on_usage_says(
    outcomes: list[Outcome], replay_gateway: Gateway
) -> None:
    replay_gateway.wait_for_row(lambda row: row["model_slug"] == outcomes[-1].run.slug)
    rows = defaultdict(list)
    for row in replay_gateway.ledger_rows():
        rows[row["model_slug"]].append(row)
    booked = Counter({slug: len(found) for slug, found in rows.items()})
    assert booked == Counter(outcome.run.slug for outcome in outcomes)
    answered = [one.run for one in outcomes if one.run.kind != "error" and one.run.id not in KNOWN]
    wrong = [f"{run.slug}: {problem}" for run in answered if (problem := _misbooked(run, rows[run.slug][0]))]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(answered)} are booked wrongly", *wrong])


def _misbooked(run: Run, row: Mapping[str, Any]) -> str | None:
    """Return what the row says that the recorded usage block doesn't, or None."""
    if (meant := expected(run)) is None:
        return None if row["usage_source"] != "provider" else "the provider's counts, of which there are none"
    booked = {name: row[f"{name}_tokens"] for name in meant.counts}
    if booked != meant.counts:
        return f"{booked}, recorded {dict(meant.counts)}"
    if row["retail_nanousd"] != meant.retail_nanousd and line_name(run) not in NO_FAMILY:
        return f"costs {row['retail_nanousd']}, by the table {meant.retail_nanousd}"
    return None if row["usage_source"] == "provider" else f"usage is {row['usage_source']}"


def test_the_table_on_usage_names_every_provider_and_every_count_that_was_recorded(runs: list[Run]) -> None:
    answered = [run for run in runs if run.kind != "error"]
    assert {line_name(run) for run in answered} == table().keys()
    assert {run.id: unnamed for run in answered if (unnamed := unnamed_counts(run))} == {}


def test_the_families_say_of_reasoning_what_the_table_on_usage_says(runs: list[Run]) -> None:
    differing = {
        line_name(run)
        for run in runs
        if run.kind != "error"
        and shipped_families()[run.family].get("reasoning_beside_completion", False)
        != table()[line_name(run)].is_beside
    }
    assert differing == NO_FAMILY


def test_a_recorded_request_is_refused_only_where_the_contract_says_so(outcomes: list[Outcome]) -> None:
    unexpected = [
        f"{outcome.run.slug}: {outcome.refused}"
        for outcome in outcomes
        if outcome.refused and not any(outcome.refused.endswith(said) for said in REFUSED)
    ]
    assert not unexpected, "\n".join(unexpected)


def test_a_recorded_error_status_is_booked(outcomes: list[Outcome], replay_gateway: Gateway) -> None:
    booked = {row["model_slug"]: row["status"] for row in replay_gateway.ledger_rows()}
    failed = [outcome.run for outcome in outcomes if outcome.run.status >= 400]
    assert failed
    assert {run.slug: booked[run.slug] for run in failed} == {run.slug: run.status for run in failed}
