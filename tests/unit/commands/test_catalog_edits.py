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


@pytest.mark.parametrize(
    ("head", "tier"),
    [
        ('[ "gpt-5.4" ]', '[[ "gpt-5.4" . tiers ]]'),
        ("['gpt-5.4']", "[['gpt-5.4'.'tiers']]"),
        ('  ["gpt-5.4"]', '\t[["gpt-5.4"."tiers"]]'),
        (r'["gpt\u002d5.4"]', r'[["gpt-5\u002e4".tiers]] # [["gpt-5.4".tiers]]'),
    ],
)
def test_a_head_may_be_spelled_in_each_way_of_toml(head: str, tier: str) -> None:
    text = TIERED.replace('["gpt-5.4"]\n', f"{head}\n").replace('[["gpt-5.4".tiers]]', tier)
    changes = {"input_price_per_m": "3", "tiers[272000].input_price_per_m": "6"}
    edited = set_prices(text, {"gpt-5.4": changes})
    assert edited == text.replace('"2.5"', '"3"').replace('"5"', '"6"')
    assert tomllib.loads(copy_table(text, "gpt-5.4")) == {"gpt-5.4": tomllib.loads(text)["gpt-5.4"]}


def test_a_tier_below_other_tables_of_its_model_is_found() -> None:
    tier, rest = TIERED.split("[[")[1].split("\n\n", 1)
    text = TIERED.replace(f"[[{tier}\n\n", "") + f"\n[[{tier}\n"
    assert rest
    key = "tiers[272000].input_price_per_m"
    assert set_prices(text, {"gpt-5.4": {key: "6"}}) == text.replace('"5"', '"6"')


def test_only_a_line_feed_ends_a_line() -> None:
    text = TIERED.replace("vendor's page", "vendor's\u2028page")
    assert set_prices(text, {"plain": {"input_price_per_m": "9"}}) == text.replace(
        '"1"\n', '"9"\n', 2
    ).replace('"9"\n', '"1"\n', 1)


def test_a_copy_of_a_table_has_its_tiers() -> None:
    assert copy_table(TIERED, "gpt-5.4") == TIERED.split("\n# About")[0]


def test_a_new_table_has_its_tiers_below() -> None:
    tier = {"above_prompt_tokens": 9, "input_price_per_m": "2"}
    made = format_model_table("a", {"input_price_per_m": "1", "tiers": [tier], "active": True})
    assert tomllib.loads(made) == {"a": {"input_price_per_m": "1", "active": True, "tiers": [tier]}}


TIMED = """\
["gpt-4o"]
input_price_per_m = "2.5"
max_completion_tokens = 16384

# why the tier is there
[["gpt-4o".tiers]]
above_prompt_tokens = 100
input_price_per_m = "5"

[["gpt-4o".hours]]
utc = ["01:00-04:00", "06:00-10:00"]
weekdays = ["fri", "mon"]
input_price_per_m = "3"
tiers = []

[["gpt-4o".dated]]
from_date = 2027-01-01  # announced
input_price_per_m = "4"
hours = []

[["gpt-4o".dated.tiers]]
above_prompt_tokens = 100
input_price_per_m = "8"

[["gpt-4o".dated]]
from_date = 2027-03-01
output_price_per_m = "40"
tiers = []

# About the next one.
[plain]
input_price_per_m = "1"
"""


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("dated[2027-01-01].input_price_per_m", 'input_price_per_m = "4"\n', 'input_price_per_m = "9"\n'),
        ("dated[2027-01-01].tiers[100].input_price_per_m", '"8"', '"9"'),
        ("dated[2027-03-01].output_price_per_m", '"40"', '"9"'),
        ("hours[01:00-04:00,06:00-10:00 mon,fri].input_price_per_m", '"3"', '"9"'),
        ("tiers[100].input_price_per_m", '"5"', '"9"'),
        (
            "dated[2027-02-01].input_price_per_m",
            '[["gpt-4o".dated]]\nfrom_date = 2027-03-01',
            '[["gpt-4o".dated]]\nfrom_date = 2027-02-01\ninput_price_per_m = "9"\n\n[["gpt-4o".dated]]\n'
            "from_date = 2027-03-01",
        ),
        (
            "dated[2027-01-01].tiers[200].input_price_per_m",
            'input_price_per_m = "8"\n',
            'input_price_per_m = "8"\n\n[["gpt-4o".dated.tiers]]\nabove_prompt_tokens = 200\n'
            'input_price_per_m = "9"\n',
        ),
    ],
)
def test_a_price_of_a_time_changes_in_its_line_or_gets_one(key: str, old: str, new: str) -> None:
    assert set_prices(TIMED, {"gpt-4o": {key: "9"}}) == TIMED.replace(old, new, 1)


def test_a_first_day_is_added_behind_its_model() -> None:
    edited = set_prices(TEXT, {"gpt-4o": {"dated[2027-01-01].input_price_per_m": "5"}})
    before = "max_completion_tokens = 16384  # a source\n"
    added = '\n[["gpt-4o".dated]]\nfrom_date = 2027-01-01\ninput_price_per_m = "5"\n'
    assert edited == TEXT.replace(before, before + added)


def test_hours_are_not_added() -> None:
    with pytest.raises(ValueError, match=r"no prices of the hours 02:00-03:00: add them by hand"):
        set_prices(TIMED, {"gpt-4o": {"hours[02:00-03:00].input_price_per_m": "9"}})
