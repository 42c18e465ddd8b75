"""Prices of models.toml that depend on the time: what they replace, and which ones are refused."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from rig.settings_files import MODELS, assert_refused, edit, write_files

from addon.settings.settings import load_settings
from policies.model import Model
from policies.prices import Prices, Tier

CAP = "max_completion_tokens = 16384"
HOURS = '[["gpt-4o-mini".hours]]\n'
DATED = '[["gpt-4o-mini".dated]]\n'
DAY = "from_date = 2027-01-01\n"
INPUT = 'input_price_per_m = "0.3"\n'
TIMES = f"""
{HOURS}utc = ["22:00-24:00", "00:00-02:00"]
weekdays = ["sat", "sun"]
{INPUT}
{DATED}{DAY}output_price_per_m = "1.2"
hours = []

{DATED}from_date = 2027-02-01
input_price_per_m = "0.6"

[["gpt-4o-mini".dated.tiers]]
above_prompt_tokens = 1000
input_price_per_m = "1.2"

["gpt-4o-mini".dated.service_tiers.flex]
output_price_per_m = "0.9"

[["gpt-4o-mini".dated.hours]]
utc = ["12:00-13:00"]
output_price_per_m = "2.4"
tiers = []
service_tiers = {{}}
"""


def load_model(folder: Path, added: str) -> Model:
    conf_file = write_files(folder)
    edit(folder / MODELS, CAP, f"{CAP}\n{added}")
    return load_settings(conf_file, {}).models["gpt-4o-mini"]


def test_each_time_has_its_own_prices_and_else_those_before_it(tmp_path: Path) -> None:
    model = load_model(tmp_path, TIMES)
    february = Prices(
        600_000,
        75_000,
        1_200_000,
        tiers=(Tier(1000, Prices(1_200_000, 75_000, 1_200_000)),),
        service_tiers={"flex": Prices(600_000, 75_000, 900_000)},
    )
    expected = {
        "2026-11-23T01:00": Prices(150_000, 75_000, 600_000),
        "2026-11-22T01:00": Prices(300_000, 75_000, 600_000),
        "2026-11-22T23:59": Prices(300_000, 75_000, 600_000),
        "2027-01-02T01:00": Prices(150_000, 75_000, 1_200_000),
        "2027-02-01T11:00": february,
        "2027-02-01T12:00": Prices(600_000, 75_000, 2_400_000),
    }
    for text, prices in expected.items():
        now = model.at(datetime.fromisoformat(text).replace(tzinfo=UTC))
        assert (text, now.wholesale, now.timed) == (text, prices, ())
    retail = model.at(datetime(2027, 2, 1, tzinfo=UTC)).retail
    assert retail.input_microusd_per_mtok == 624_000
    assert retail.tiers[0].prices.input_microusd_per_mtok == 1_248_000


def test_plain_prices_hold_always(tmp_path: Path) -> None:
    model = load_model(tmp_path, "")
    assert model.timed == ()
    assert model.at(datetime(2027, 1, 1, tzinfo=UTC)) is model


def test_all_prices_are_listed_with_their_times(tmp_path: Path) -> None:
    listed = load_model(tmp_path, TIMES).list_wholesale()
    assert {key: price for key, price in listed.items() if "[" in key} == {
        "hours[22:00-24:00,00:00-02:00 sat,sun].input_price_per_m": 300_000,
        "dated[2027-01-01].output_price_per_m": 1_200_000,
        "dated[2027-02-01].input_price_per_m": 600_000,
        "dated[2027-02-01].output_price_per_m": 1_200_000,
        "dated[2027-02-01].tiers[1000].input_price_per_m": 1_200_000,
        "dated[2027-02-01].service_tiers.flex.output_price_per_m": 900_000,
        "dated[2027-02-01].hours[12:00-13:00].input_price_per_m": 600_000,
        "dated[2027-02-01].hours[12:00-13:00].output_price_per_m": 2_400_000,
    }


def test_a_day_is_a_date_of_toml(tmp_path: Path) -> None:
    [timed] = load_model(tmp_path, f"{DATED}{DAY}{INPUT}").timed
    assert timed.from_date == date(2027, 1, 1)


TIER = '[["gpt-4o-mini".tiers]]\nabove_prompt_tokens = 5\ninput_price_per_m = "1"\n'
FLEX = '["gpt-4o-mini".service_tiers.flex]\ninput_price_per_m = "1"\n'
SPAN = 'utc = ["01:00-04:00"]\n'
# what is added, the key, parts of the reason
WRONG = {
    "an entry without a day": (
        f"{DATED}{INPUT}",
        "gpt-4o-mini.dated[0].from_date",
        ("is required", "(at line 9)"),
    ),
    "falling days": (
        f"{DATED}{DAY}{INPUT}{DATED}from_date = 2026-12-01\n{INPUT}",
        "gpt-4o-mini.dated[1].from_date",
        ("must be after 2027-01-01", "rising days", "(at line 13)"),
    ),
    "two entries of one day": (
        2 * f"{DATED}{DAY}{INPUT}",
        "gpt-4o-mini.dated[1].from_date",
        ("is the day of the entry before it: make them one", "(at line 13)"),
    ),
    "a day without a price": (
        f"{DATED}{DAY}",
        "gpt-4o-mini.dated[0].from_date",
        ("has no price", "name those that are other ones", "(at line 10)"),
    ),
    "a day with a time": (
        f"{DATED}from_date = 2027-01-01T08:00:00Z\n{INPUT}",
        "gpt-4o-mini.dated[0].from_date",
        ("such as 2027-01-01", "(at line 10)"),
    ),
    "a day in quotes": (
        f'{DATED}from_date = "2027-01-01"\n{INPUT}',
        "gpt-4o-mini.dated[0].from_date",
        ("such as 2027-01-01", "(at line 10)"),
    ),
    "hours without a span": (f"{HOURS}{INPUT}", "gpt-4o-mini.hours[0].utc", ("is required",)),
    "hours of no span": (f"{HOURS}utc = []\n{INPUT}", "gpt-4o-mini.hours[0].utc", ("must not be empty",)),
    "hours without a price": (
        f"{HOURS}{SPAN}",
        "gpt-4o-mini.hours[0].utc",
        ("has no price", "(at line 10)"),
    ),
    "overlapping hours of one entry": (
        f'{HOURS}utc = ["01:00-04:00", "03:59-05:00"]\n{INPUT}',
        "gpt-4o-mini.hours[0].utc",
        ("has overlapping hours: write each hour once", "(at line 10)"),
    ),
    "overlapping hours of two entries": (
        f"{HOURS}{SPAN}{INPUT}{HOURS}{SPAN}{INPUT}",
        "gpt-4o-mini.hours[1].utc",
        ("overlaps utc of hours[0]: only one price can hold at a time", "(at line 13)"),
    ),
    "hours past midnight": (
        f'{HOURS}utc = ["22:00-02:00"]\n{INPUT}',
        "gpt-4o-mini.hours[0].utc[0]",
        ('write "22:00-24:00" and "00:00-02:00"', "(at line 10)"),
    ),
    "hours that do not exist": (
        f'{HOURS}utc = ["22:00-24:01"]\n{INPUT}',
        "gpt-4o-mini.hours[0].utc[0]",
        ('such as "01:00-04:00"',),
    ),
    "hours in other words": (
        f'{HOURS}utc = ["1am-4am"]\n{INPUT}',
        "gpt-4o-mini.hours[0].utc[0]",
        ('such as "01:00-04:00"',),
    ),
    "an unknown day of the week": (
        f'{HOURS}{SPAN}weekdays = ["monday"]\n{INPUT}',
        "gpt-4o-mini.hours[0].weekdays[0]",
        ("'mon'",),
    ),
    "a price of nine digits from a day on": (
        f'{DATED}{DAY}input_price_per_m = "123456789"',
        "gpt-4o-mini.dated[0].input_price_per_m",
        ("is too large; the limit is 1000000 USD", "(at line 11)"),
    ),
    "a day that loses the tiers": (
        f"{TIER}{DATED}{DAY}{INPUT}",
        "gpt-4o-mini.dated[0].from_date",
        ("has no tiers, but the prices that it replaces have", "tiers = []", "(at line 13)"),
    ),
    "hours that lose the service tiers": (
        f"{FLEX}{HOURS}{SPAN}{INPUT}",
        "gpt-4o-mini.hours[0].utc",
        ("has no service_tiers", "service_tiers = {}", "(at line 12)"),
    ),
    "a day that loses the hours": (
        f"{HOURS}{SPAN}{INPUT}{DATED}{DAY}{INPUT}",
        "gpt-4o-mini.dated[0].from_date",
        ("has no hours", "hours = []", "(at line 13)"),
    ),
    "a tier of a day without a price": (
        f'{DATED}{DAY}{INPUT}[["gpt-4o-mini".dated.tiers]]\nabove_prompt_tokens = 5',
        "gpt-4o-mini.dated[0].tiers[0].above_prompt_tokens",
        ("has no price", "(at line 13)"),
    ),
    "a tier of a day above the window": (
        f'context_window = 20000\n{DATED}{DAY}{INPUT}[["gpt-4o-mini".dated.tiers]]\n'
        f"above_prompt_tokens = 20001\n{INPUT}",
        "gpt-4o-mini.dated[0].tiers[0].above_prompt_tokens",
        ("is above context_window, which is 20000",),
    ),
    "an unknown key": (
        f"{DATED}{DAY}{INPUT}from = 2027-01-01",
        "gpt-4o-mini.dated[0].from",
        ("unknown key",),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_time_is_refused_with_file_key_line_and_cure(tmp_path: Path, case: str) -> None:
    added, key, reasons = WRONG[case]
    for number, reason in enumerate(reasons):
        assert_refused(tmp_path / str(number), MODELS, CAP, f"{CAP}\n{added}", key, reason)
