"""Prices of models.toml: tiers and service tiers inherit what they do not name, and a wrong one is refused."""

from pathlib import Path

import pytest
from rig.settings_files import MODELS, assert_refused, edit, write_files

from addon.settings.settings import load_settings
from policies.prices import Prices, Tier

CAP = "max_completion_tokens = 16384"
TIERS = """
[["gpt-4o-mini".tiers]]
above_prompt_tokens = 200_000
input_price_per_m = "0.3"

[["gpt-4o-mini".tiers]]
above_prompt_tokens = 400000
output_price_per_m = "2.4"
whole_call = false

["gpt-4o-mini".service_tiers.flex]
input_price_per_m = "0.075"

[["gpt-4o-mini".service_tiers.flex.tiers]]
above_prompt_tokens = 272000
input_price_per_m = "0.15"
"""


def load_prices(folder: Path, added: str, row: str = CAP) -> tuple[Prices, Prices]:
    """Return the wholesale and the retail prices of a row with this text at its end."""
    conf_file = write_files(folder)
    edit(folder / MODELS, CAP, f"{row}\n{added}")
    model = load_settings(conf_file, {}).models["gpt-4o-mini"]
    return model.wholesale, model.retail


def test_a_tier_has_the_prices_around_it_where_it_names_none(tmp_path: Path) -> None:
    wholesale, retail = load_prices(tmp_path, TIERS)
    first = Prices(300_000, 75_000, 600_000)
    assert wholesale.tiers == (Tier(200_000, first), Tier(400_000, Prices(300_000, 75_000, 2_400_000), False))
    flex = wholesale.service_tiers["flex"]
    assert flex == Prices(75_000, 75_000, 600_000, tiers=(Tier(272_000, Prices(150_000, 75_000, 600_000)),))
    assert retail.tiers[0].prices == Prices(312_000, 78_000, 624_000)
    assert retail.service_tiers["flex"].input_microusd_per_mtok == 78_000


def test_prices_of_each_kind_are_read(tmp_path: Path) -> None:
    kinds = ("cache_write_5m", "cache_write_1h", "reasoning", "audio_input", "cached_audio_input")
    kinds += ("audio_output", "image_input", "per_call", "per_search")
    added = "\n".join(f'{kind}_price_per_m = "{number}"' for number, kind in enumerate(kinds, start=1))
    wholesale, _ = load_prices(tmp_path, f'{added}\ncache_write_price_per_m = "20"\ncontext_window = 16384')
    million = 1_000_000
    assert wholesale.by_kind == (
        *(150_000, 4 * million, 7 * million, 1 * million, 2 * million, 75_000, 5 * million),
        *(600_000, 3 * million, 6 * million, 9 * million, 8 * million),
    )


def test_a_general_price_of_cache_writes_is_for_every_term(tmp_path: Path) -> None:
    wholesale, _ = load_prices(tmp_path, 'cache_write_price_per_m = "20"')
    assert wholesale.price_of("cache_write") == wholesale.price_of("cache_write_1h") == 20_000_000


TIER = '[["gpt-4o-mini".tiers]]\n'
# what is added, the key, parts of the reason
WRONG = {
    "a tier without a bound": (
        f'{TIER}input_price_per_m = "1"',
        "gpt-4o-mini.tiers[0].above_prompt_tokens",
        ("is required: the prompt tokens above which these prices hold", "(at line 9)"),
    ),
    "falling bounds": (
        2 * f'{TIER}above_prompt_tokens = 5\ninput_price_per_m = "1"\n',
        "gpt-4o-mini.tiers[1].above_prompt_tokens",
        ("must be above 5", "rising bounds", "(at line 13)"),
    ),
    "a price of nine digits": (
        'audio_input_price_per_m = "123456789"',
        "gpt-4o-mini.audio_input_price_per_m",
        ("is too large; the limit is 1000000 USD: check the decimal point", "(at line 9)"),
    ),
    "a tier's price of nine decimals": (
        f'{TIER}above_prompt_tokens = 5\ninput_price_per_m = "0.123456789"',
        "gpt-4o-mini.tiers[0].input_price_per_m",
        ("9 fractional digits; at most 6 are possible: round it", "(at line 11)"),
    ),
    "a window below the cap": (
        "context_window = 16383",
        "gpt-4o-mini.context_window",
        ("must be at least max_completion_tokens, which is 16384", "(at line 9)"),
    ),
    "a bound that no prompt reaches": (
        f'context_window = 20000\n{TIER}above_prompt_tokens = 20001\ninput_price_per_m = "1"',
        "gpt-4o-mini.tiers[0].above_prompt_tokens",
        ("is above context_window, which is 20000: lower it, or raise that", "(at line 11)"),
    ),
    "a bound of a service tier that no prompt reaches": (
        'context_window = 20000\n["gpt-4o-mini".service_tiers.flex]\ninput_price_per_m = "1"\n'
        '[["gpt-4o-mini".service_tiers.flex.tiers]]\nabove_prompt_tokens = 20001\ninput_price_per_m = "2"',
        "gpt-4o-mini.service_tiers.flex.tiers[0].above_prompt_tokens",
        ("is above context_window, which is 20000", "(at line 13)"),
    ),
    "falling bounds of a service tier": (
        '["gpt-4o-mini".service_tiers.flex]\ninput_price_per_m = "1"\n'
        + 2
        * '[["gpt-4o-mini".service_tiers.flex.tiers]]\nabove_prompt_tokens = 9\ninput_price_per_m = "2"\n',
        "gpt-4o-mini.service_tiers.flex.tiers[1].above_prompt_tokens",
        ("must be above 9", "(at line 15)"),
    ),
    "a wrong tier on one line": (
        'tiers = [{ above_prompt_tokens = 5, input_price_per_m = "1" }, { input_price_per_m = "1" }]',
        "gpt-4o-mini.tiers[1].above_prompt_tokens",
        ("is required", "(at line 9)"),
    ),
    "a wrong tier below another spelling of its head": (
        "[[ 'gpt-4o-mini' . tiers ]] # [long]\nabove_prompt_tokens = 5\ninput_price_per_m = 1",
        "gpt-4o-mini.tiers[0].input_price_per_m",
        ("must be a string", "(at line 11)"),
    ),
    "a wrong tier with dotted keys": (
        'service_tiers.flex.input_price_per_m = "-1"',
        "gpt-4o-mini.service_tiers.flex.input_price_per_m",
        ("is negative: write 0 or more", "(at line 9)"),
    ),
    "a tier without a price": (
        f"{TIER}above_prompt_tokens = 5",
        "gpt-4o-mini.tiers[0].above_prompt_tokens",
        ("has no price", "(at line 10)"),
    ),
    "a tier from the first token on": (
        f'{TIER}above_prompt_tokens = 0\ninput_price_per_m = "1"',
        "gpt-4o-mini.tiers[0].above_prompt_tokens",
        ("greater than or equal to 1",),
    ),
    "a bound that is no number": (
        f'{TIER}above_prompt_tokens = "5"\ninput_price_per_m = "1"',
        "gpt-4o-mini.tiers[0].above_prompt_tokens",
        ("valid integer",),
    ),
    "an unknown key of a tier": (
        f'{TIER}above_prompt_tokens = 5\ninput_price = "1"',
        "gpt-4o-mini.tiers[0].input_price",
        ("unknown key",),
    ),
    "the usual service": (
        '["gpt-4o-mini".service_tiers.default]\ninput_price_per_m = "1"',
        "gpt-4o-mini.service_tiers.default",
        ("usual service",),
    ),
    "a service tier in capitals": (
        '["gpt-4o-mini".service_tiers.FLEX]\ninput_price_per_m = "1"',
        "gpt-4o-mini.service_tiers.FLEX",
        ("in lower case",),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_price_is_refused_with_file_key_line_and_cure(tmp_path: Path, case: str) -> None:
    added, key, reasons = WRONG[case]
    for number, reason in enumerate(reasons):
        assert_refused(tmp_path / str(number), MODELS, CAP, f"{CAP}\n{added}", key, reason)
