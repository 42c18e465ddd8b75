"""Platform keys of real settings: one for each conversation, on a clock of the test."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from pydantic import SecretStr
from rig.platform_keys import CONVERSATIONS, ENV, PROVIDERS, THREE, Rig, letter
from rig.settings_files import edit

from addon.upstream.platform_keys import PlatformKeys
from policies.affinity import find_affinity
from policies.route import Target


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_a_conversation_keeps_its_key_while_a_rejected_key_rests(rig: Rig) -> None:
    assert rig.chosen("abcabc") == "abcabc"
    assert rig.answer(401) == "a"
    assert rig.chosen("abcabc") == "bbcbbc"
    rig.now_s += 59.9
    assert rig.chosen() == "bbc"
    rig.now_s += 0.1
    assert rig.chosen() == "abc"


def test_conversations_share_the_keys_evenly(rig: Rig) -> None:
    made = [find_affinity("acme", {"messages": []}, f"run {number}") for number in range(3000)]
    chosen = Counter(letter(rig.keys.choose(rig.target(), lambda: one)) for one in made)  # noqa: B023
    assert all(abs(chosen[one] / 3000 - 1 / 3) < 0.04 for one in "abc")


def test_a_provider_with_one_key_always_uses_it_and_asks_for_no_conversation(rig: Rig) -> None:
    groq = rig.target("openai/gpt-oss-20b")
    for _ in range(5):
        chosen = rig.keys.choose(groq, pytest.fail)
        assert chosen == replace(groq, platform_key=1)
        rig.keys.record_answer(chosen, 401, None)
    assert rig.chosen() == "abc"


def test_a_provider_says_when_its_key_is_ready_in_seconds_or_by_a_date(rig: Rig) -> None:
    rig.answer(429, "7")
    then = datetime.now(UTC) + timedelta(minutes=5)
    rig.answer(429, format_datetime(then, usegmt=True), "b")
    assert rig.chosen() == "ccc"
    rig.now_s += 7
    assert rig.chosen() == "acc"
    rig.now_s += 200
    assert rig.chosen() == "acc"
    rig.now_s += 100
    assert rig.chosen() == "abc"


def test_where_all_keys_rest_the_one_that_is_ready_first_is_used(rig: Rig) -> None:
    waits = {"a": "30", "b": "10", "c": "20"}
    assert [rig.answer(429, wait, one) for one, wait in waits.items()] == ["a", "b", "c"]
    assert rig.chosen() == "bbb"
    rig.answer(429, "40")
    assert rig.chosen() == "ccc"


def test_calls_in_flight_together_fail_as_one_in_any_order_of_answers(rig: Rig) -> None:
    of_a = [rig.choose() for _ in range(10)]
    for target in of_a[:5]:
        rig.keys.record_answer(target, 401, None)
        rig.now_s += 1
    assert "key 1 of 3 rests 55 s after 401" in rig.keys.check()
    rig.now_s += 100
    for target in of_a[5:]:
        rig.keys.record_answer(target, 401, None)
    assert "key 1 of 3 rests 60 s after 401" in rig.keys.check()
    rig.now_s += 60
    assert rig.answer(401) == "a"
    assert "key 1 of 3 rests 120 s after 401" in rig.keys.check()


def test_a_success_makes_a_key_ready_unless_its_call_was_sent_before_the_rest(rig: Rig) -> None:
    early = rig.choose()
    waits = {"a": "10", "b": "500", "c": "500"}
    assert [rig.answer(429, wait, one) for one, wait in waits.items()] == ["a", "b", "c"]
    rig.keys.record_answer(early, 200, None)
    assert "key 1 of 3 rests 10 s after 429" in rig.keys.check()
    assert rig.answer(200) == "a"
    assert "key 1 of 3" not in rig.keys.check()


@pytest.mark.parametrize("status", [400, 402, 403, 404, 408, 422, 500, 503])
def test_other_answers_change_nothing_for_a_key(rig: Rig, status: int) -> None:
    rig.answer(status, "60")
    assert rig.keys.check() == "ok"


def test_a_customers_key_is_neither_chosen_nor_noted_even_where_it_equals_a_platform_key(rig: Rig) -> None:
    own = Target(rig.target().model, "byok", SecretStr(ENV["A"]))
    assert rig.keys.choose(own, pytest.fail) is own
    rig.keys.record_answer(own, 401, None)
    assert rig.keys.check() == "ok"


def test_a_reload_keeps_the_state_of_keys_that_stay_and_forgets_the_others(rig: Rig) -> None:
    assert [rig.answer(401, wanted=one) for one in "ab"] == ["a", "b"]
    under_way = rig.choose("c")
    edit(rig.folder / PROVIDERS, THREE, 'platform_keys = ["env:C", "env:B"]')
    rig.reload()
    assert rig.keys.check() == "OPENAI: key 2 of 2 rests 60 s after 401"
    assert rig.chosen() == "ccc"
    rig.keys.record_answer(under_way, 401, None)
    assert rig.keys.check().startswith("OPENAI: key 1 of 2 rests 60 s after 401; OPENAI: key 2 of 2")
    edit(rig.folder / PROVIDERS, '["env:C", "env:B"]', '["env:A", "env:C"]')
    rig.reload()
    assert rig.keys.check() == "OPENAI: key 2 of 2 rests 60 s after 401"
    assert rig.chosen() == "aaa"


def test_a_key_that_goes_or_moves_in_the_list_moves_no_other_conversation(rig: Rig) -> None:
    edit(rig.folder / PROVIDERS, THREE, 'platform_keys = ["env:C", "env:A"]')
    rig.reload()
    assert rig.chosen() == "acc"
    edit(rig.folder / PROVIDERS, '["env:C", "env:A"]', '["env:C", "env:B", "env:A"]')
    rig.reload()
    assert rig.chosen() == "abc"


def test_a_call_of_earlier_settings_has_their_keys_and_its_failure_counts_for_no_key(rig: Rig) -> None:
    earlier = rig.target()
    edit(rig.folder / PROVIDERS, THREE, 'platform_keys = ["env:C"]')
    rig.reload()
    chosen = [rig.keys.choose(earlier, lambda: CONVERSATIONS[one]) for one in "abc"]  # noqa: B023
    # The third key is the first one now, but it was not when this call began.
    assert [(letter(one), one.platform_key) for one in chosen] == [("a", 1), ("b", 2), ("c", 3)]
    for target in chosen:
        rig.keys.record_answer(target, 429, "9")
    assert rig.keys.check() == "OPENAI: key 1 of 1 rests 9 s after 429"


def test_keys_are_chosen_also_before_any_settings_are_loaded(rig: Rig) -> None:
    rig.keys = PlatformKeys(rig.metrics)
    assert rig.chosen() == "abc"


def test_a_place_is_that_of_the_file_also_where_a_key_is_not_set(rig: Rig) -> None:
    del rig.env["A"]
    rig.reload()
    assert [rig.answer(429, "3"), rig.answer(200, wanted="c")] == ["b", "c"]
    assert rig.choose("c").platform_key == 3
    assert rig.keys.check() == "OPENAI: key 2 of 3 rests 3 s after 429"
