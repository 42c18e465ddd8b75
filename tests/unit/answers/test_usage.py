"""Usage is what the provider reported: no count is invented, and none is lost."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.answers.usage import (
    CACHE_WRITE_TOKENS_AT,
    CACHED_TOKENS_AT,
    REASONING_TOKENS_AT,
    merge_usage,
    parse_usage,
    read_count,
)
from policies.family import Family
from policies.plausible_usage import NOT_A_COUNT
from policies.usage import Usage

FAMILY = Family("plain")

COUNTS = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
READ = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        (COUNTS, Usage(**READ)),
        ({**COUNTS, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(**READ, cached_tokens=4)),
        ({**COUNTS, "prompt_token_details": {"cached_tokens": 4}}, Usage(**READ, cached_tokens=4)),
        ({**COUNTS, "input_tokens_details": {"cached_tokens": 4}}, Usage(**READ, cached_tokens=4)),
        ({**COUNTS, "prompt_cache_hit_tokens": 4}, Usage(**READ, cached_tokens=4)),
        ({**COUNTS, "cached_tokens": 4}, Usage(**READ, cached_tokens=4)),
        ({**COUNTS, "num_cached_tokens": 4}, Usage(**READ, cached_tokens=4)),
        ({**COUNTS, "cache_read_input_tokens": 4}, Usage(**READ, cached_tokens=4)),
        ({**COUNTS, "prompt_tokens_details": {"cache_write_tokens": 7}}, Usage(**READ, cache_write_tokens=7)),
        ({**COUNTS, "cache_creation_input_tokens": 7}, Usage(**READ, cache_write_tokens=7)),
        ({**COUNTS, "completion_tokens_details": {"reasoning_tokens": 9}}, Usage(**READ, reasoning_tokens=9)),
        ({**COUNTS, "reasoning_tokens": 9}, Usage(**READ, reasoning_tokens=9)),
        (
            {**COUNTS, "prompt_tokens_details": {"cached_tokens": 0}, "cached_tokens": 3},
            Usage(**READ, cached_tokens=0),
        ),
        (
            {**COUNTS, "prompt_tokens_details": None, "completion_tokens_details": None},
            Usage(**READ),
        ),
        ({**COUNTS, "prompt_tokens_details": {"cached_tokens": None}}, Usage(**READ)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(prompt_tokens=0, completion_tokens=0)),
        ({"prompt_tokens": 5, "completion_tokens": None}, Usage(prompt_tokens=5)),
        ({"prompt_tokens": True, "completion_tokens": 2.5, "total_tokens": "some"}, None),
        ({"prompt_tokens": "11", "completion_tokens": 2.0, "total_tokens": "013"}, Usage(11, 2, 13)),
        ({"prompt_tokens": -3, "total_tokens": float("nan")}, Usage(NOT_A_COUNT, None, NOT_A_COUNT)),
        ({"completion_tokens": "9" * 5_000, "total_tokens": -2.0}, Usage(None, NOT_A_COUNT, NOT_A_COUNT)),
        ({"prompt_tokens": "-1", "completion_tokens": "\u0661"}, None),
        ({}, None),
        (None, None),
        ([], None),
    ],
)
def test_counts_are_read_under_every_known_name(reported: object, usage: Usage | None) -> None:
    assert parse_usage({"usage": reported, "choices": []}, FAMILY) == usage


def test_groq_reports_usage_in_streams_under_its_own_name() -> None:
    assert parse_usage({"x_groq": {"id": "req", "usage": COUNTS}}, FAMILY) == Usage(**READ)
    assert parse_usage({"usage": None, "x_groq": {"usage": COUNTS}}, FAMILY) == Usage(**READ)
    assert parse_usage({"x_groq": {"id": "req"}}, FAMILY) is None


def test_the_payloads_own_usage_comes_before_the_vendors() -> None:
    other = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    assert parse_usage({"usage": COUNTS, "x_groq": {"usage": other}}, FAMILY) == Usage(**READ)


def test_a_later_report_wins_and_its_absent_counts_change_nothing() -> None:
    first = Usage(prompt_tokens=10, completion_tokens=1, cached_tokens=4)
    last = Usage(completion_tokens=0, total_tokens=10)
    assert merge_usage(first, last) == Usage(10, 0, 10, 4)
    assert merge_usage(None, last) == last


@pytest.mark.parametrize(
    ("later", "cost"),
    [
        (Usage(completion_tokens=9), None),
        (Usage(completion_tokens=9, reported_nanousd=0), 0),
        (Usage(cached_tokens=2), 7),
    ],
)
def test_a_cost_is_that_of_the_counts_beside_it(later: Usage, cost: int | None) -> None:
    assert merge_usage(Usage(completion_tokens=1, reported_nanousd=7), later).reported_nanousd == cost


def test_a_family_says_where_its_counts_are() -> None:
    family = Family("odd", cached_tokens_at=("cache.hits",), reasoning_tokens_at=("thoughts",))
    reported = {**COUNTS, "cache": {"hits": 3}, "thoughts": 2, "cached_tokens": 8, "reasoning_tokens": 9}
    assert parse_usage({"usage": reported}, family) == Usage(**READ, cached_tokens=3, reasoning_tokens=2)


COUNT_PLACES = (
    *(("prompt_tokens",), ("completion_tokens",), ("total_tokens",)),
    *(CACHED_TOKENS_AT, REASONING_TOKENS_AT, CACHE_WRITE_TOKENS_AT),
)
NAMES = st.sampled_from(sorted({name for places in COUNT_PLACES for at in places for name in at.split(".")}))
COUNTS_AS_WRITTEN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["7", "", "-1", "\u0661", "9" * 41, [], [3]])
)


def first_count(report: object, places: Sequence[str]) -> int | None:
    """Return the first count at ``places``, found by the plainest way there is."""
    for place in places:
        value = report
        for name in place.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if (count := read_count(value)) is not None:
            return count
    return None


@given(st.dictionaries(NAMES, COUNTS_AS_WRITTEN | st.dictionaries(NAMES, COUNTS_AS_WRITTEN, max_size=3)))
def test_each_count_is_the_first_one_at_its_places(report: dict[str, object]) -> None:
    expected = Usage(*[first_count(report, places) for places in COUNT_PLACES])
    assert parse_usage({"usage": report}, FAMILY) == (None if expected == Usage() else expected)


RECORDED = {
    # openai-chat-09f10ecdddf7f591
    "sound": (
        {
            **{"prompt_tokens": 42, "completion_tokens": 10, "total_tokens": 52},
            "prompt_tokens_details": {
                "cached_tokens": 0,
                "audio_tokens": 25,
                "text_tokens": 17,
                "image_tokens": 0,
            },
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        },
        Usage(42, 10, 52, 0, 0, audio_input_tokens=25, image_input_tokens=0, audio_output_tokens=0),
    ),
    # openrouter-chat-00dea9c1da8517fd has the older of these two names
    "searches": ({**COUNTS, "server_tool_use": {"web_search_requests": 1}}, Usage(**READ, searches=1)),
    "newer searches": (
        {**COUNTS, "server_tool_use_details": {"web_search_requests": 2}},
        Usage(**READ, searches=2),
    ),
    "xAI's searches": ({**COUNTS, "num_sources_used": 3}, Usage(**READ, searches=3)),
    "an hour": (
        {**COUNTS, "cache_creation": {"ephemeral_1h_input_tokens": 4}},
        Usage(**READ, cache_write_1h_tokens=4),
    ),
    "Mistral's tier": ({**COUNTS, "service_tier": "priority"}, Usage(**READ, service_tier="priority")),
}


@pytest.mark.parametrize("case", RECORDED)
def test_counts_with_a_price_of_their_own_are_read(case: str) -> None:
    reported, usage = RECORDED[case]
    assert parse_usage({"usage": reported}, FAMILY) == usage


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("default", "default"),
        ("ON_DEMAND", "on_demand"),
        ("ON_DEMAND_FLEX", "flex"),
        ("Priority", "priority"),
        ("", None),
        (None, None),
        (7, None),
        ({"type": "flex"}, None),
        ("two words", None),
        ("x" * 41, None),
    ],
)
def test_a_service_tier_is_a_short_name_in_lower_case(written: object, name: str | None) -> None:
    assert parse_usage({"usage": COUNTS, "service_tier": written}, FAMILY) == Usage(**READ, service_tier=name)


@pytest.mark.parametrize(
    ("reported", "nanousd"),
    [
        ({"cost": 0.007637029}, 7_637_029),  # openrouter-chat-00dea9c1da8517fd
        ({"cost": 4.89e-05}, 48_900),
        ({"cost": 0}, 0),
        ({"cost": 0.0000000005}, 1),
        ({"cost": 0.1 + 0.2}, 300_000_000),
        ({"cost": 0.01, "is_byok": True}, None),
        ({"cost": None}, None),
        ({"cost": "0.5"}, None),
        ({"cost": True}, None),
        ({"cost": {"total_cost": 1}}, None),
        ({"cost": -0.5}, NOT_A_COUNT),
        ({"cost": float("nan")}, NOT_A_COUNT),
        ({"cost": float("inf")}, NOT_A_COUNT),
        ({"cost": 10**400}, NOT_A_COUNT),
        ({"cost_in_usd_ticks": 739_000}, 73_900),  # xai-chat-102eb5eca0e99650
        ({"cost_in_usd_ticks": 15}, 2),
        ({"cost_in_usd_ticks": 0}, None),  # azure_foundry-chat-e41b6aff074dd6e0
        ({"cost_in_usd_ticks": -1}, NOT_A_COUNT),
    ],
)
def test_a_cost_that_a_provider_reports_is_read_exactly(
    reported: Mapping[str, object], nanousd: int | None
) -> None:
    assert parse_usage({"usage": {**COUNTS, **reported}}, FAMILY) == Usage(**READ, reported_nanousd=nanousd)
