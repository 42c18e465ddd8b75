"""Edits of models.toml change the lines of one price or add one table, and keep every other byte."""

import tomllib

import pytest

from addon.commands.catalog_edits import add_table, copy_table, format_model_table, set_prices

TEXT = """\
# The catalog.

["gpt-4o"]  # retires soon
provider = "OPENAI"
input_price_per_m = "2.5"   # base tier
  output_price_per_m='10' # per million
max_completion_tokens = 16384  # a source

# About the next one.
[plain]
input_price_per_m = "1"
output_price_per_m = "2"
"""


def test_a_price_changes_in_its_line_and_nothing_else() -> None:
    edited = set_prices(TEXT, {"gpt-4o": {"input_price_per_m": "2", "output_price_per_m": "9.5"}})
    assert edited == TEXT.replace('"2.5" ', '"2" ').replace("='10' #", '="9.5" #')


def test_a_new_price_goes_below_the_other_prices_of_its_table() -> None:
    edited = set_prices(TEXT, {"gpt-4o": {"cached_input_price_per_m": "1.25"}})
    before = "  output_price_per_m='10' # per million\n"
    assert edited == TEXT.replace(before, before + 'cached_input_price_per_m = "1.25"\n')


def test_several_tables_change_at_once_and_the_last_line_may_lack_its_end() -> None:
    text = TEXT.rstrip()
    edited = set_prices(
        text,
        {
            "gpt-4o": {"cached_input_price_per_m": "1", "cache_write_price_per_m": "3"},
            "plain": {"cached_input_price_per_m": "0.5"},
        },
    )
    tables = tomllib.loads(edited)
    assert (tables["gpt-4o"]["cache_write_price_per_m"], tables["plain"]["cached_input_price_per_m"]) == (
        "3",
        "0.5",
    )
    assert set(text.splitlines()) < set(edited.splitlines())


def test_line_ends_of_windows_stay() -> None:
    text = TEXT.replace("\n", "\r\n")
    edited = set_prices(text, {"plain": {"cached_input_price_per_m": "0.5"}})
    assert "\n" not in edited.replace("\r\n", "")


@pytest.mark.parametrize(
    "text",
    [
        'plain = { input_price_per_m = "1" }\n',
        'plain.input_price_per_m = "1"\n',
        'note = """\n[plain]\ninput_price_per_m = "1"\n"""\n["plain"]\ninput_price_per_m = "1"\n',
    ],
)
def test_a_table_in_another_notation_is_not_edited(text: str) -> None:
    with pytest.raises(ValueError, match="can't be edited line by line"):
        set_prices(text, {"plain": {"input_price_per_m": "2"}})


def test_a_copied_table_ends_with_its_last_key() -> None:
    copied = copy_table(TEXT, "gpt-4o")
    assert copied.startswith('["gpt-4o"]  # retires soon\n')
    assert copied.endswith("# a source\n")
    assert tomllib.loads(copied) == {"gpt-4o": tomllib.loads(TEXT)["gpt-4o"]}


def test_a_table_is_added_at_the_end() -> None:
    table = format_model_table(
        'x/y"z'.replace('"', ""), {"provider": "Ä", "max": 3, "active": True}, "a comment"
    )
    assert table == '["x/yz"]  # a comment\nprovider = "Ä"\nmax = 3\nactive = true\n'
    assert add_table(TEXT, table) == f"{TEXT}\n{table}"
    assert add_table("", table) == table
    assert add_table("# only a comment", table) == f"# only a comment\n\n{table}"


def test_a_table_that_is_there_is_not_added_again() -> None:
    with pytest.raises(ValueError, match=r'^has a table "plain" already$'):
        add_table(TEXT, '["plain"]\ninput_price_per_m = "3"\n')


def test_a_table_after_an_unfinished_one_is_not_added_into_it() -> None:
    with pytest.raises(ValueError, match="twice"):
        add_table(TEXT, '[plain]\ninput_price_per_m = "3"\n[plain2]\n[plain]\n')


TIERED = """\
["gpt-5.4"]
input_price_per_m = "2.5"
output_price_per_m = "15"
active = true

[["gpt-5.4".tiers]]  # the vendor's page
above_prompt_tokens = 272_000
input_price_per_m = "5"

["gpt-5.4".service_tiers.flex]
input_price_per_m = "1"

# About the next one.
[plain]
input_price_per_m = "1"
"""


def test_a_price_of_a_tier_changes_in_its_line() -> None:
    key = "tiers[272000].input_price_per_m"
    assert set_prices(TIERED, {"gpt-5.4": {key: "6"}}) == TIERED.replace('"5"', '"6"')
    added = set_prices(TIERED, {"gpt-5.4": {"tiers[272000].output_price_per_m": "20"}})
    assert added == TIERED.replace('m = "5"\n', 'm = "5"\noutput_price_per_m = "20"\n')


@pytest.mark.parametrize("bound", [200_000, 400_000])
def test_a_tier_that_is_missing_is_added_in_the_order_of_the_bounds(bound: int) -> None:
    edited = set_prices(TIERED, {"gpt-5.4": {f"tiers[{bound}].input_price_per_m": "7"}})
    tiers = tomllib.loads(edited)["gpt-5.4"]["tiers"]
    assert [tier["above_prompt_tokens"] for tier in tiers] == sorted((bound, 272_000))
    assert {"above_prompt_tokens": bound, "input_price_per_m": "7"} in tiers
    kept = edited.replace(
        f'[["gpt-5.4".tiers]]\nabove_prompt_tokens = {bound}\ninput_price_per_m = "7"\n', ""
    )
    assert kept.replace("\n", "") == TIERED.replace("\n", "")


def test_a_first_tier_goes_below_the_table_and_above_the_comment_of_the_next() -> None:
    edited = set_prices(TEXT, {"gpt-4o": {"tiers[9].input_price_per_m": "7"}})
    added = '\n[["gpt-4o".tiers]]\nabove_prompt_tokens = 9\ninput_price_per_m = "7"\n'
    assert edited == TEXT.replace("# a source\n", f"# a source\n{added}")


def test_a_copy_of_a_table_has_its_tiers() -> None:
    assert copy_table(TIERED, "gpt-5.4") == TIERED.split("\n# About")[0]


def test_a_new_table_has_its_tiers_below() -> None:
    tier = {"above_prompt_tokens": 9, "input_price_per_m": "2"}
    made = format_model_table("a", {"input_price_per_m": "1", "tiers": [tier], "active": True})
    assert tomllib.loads(made) == {"a": {"input_price_per_m": "1", "active": True, "tiers": [tier]}}
