"""The prices that a gateway served last, and the line that names those that changed."""

from dataclasses import replace
from pathlib import Path

import pytest
from rig.ledger import answered_exchange

from addon.settings.served_prices import FILE_NAME, MAX_NAMED, ServedPrices
from policies.family import Family
from policies.model import Model
from policies.prices import Prices


def models(**prices: Prices) -> dict[str, Model]:
    """Return models with these wholesale prices, by slug."""
    plain = answered_exchange(Family("chat")).target.model
    return {slug: replace(plain, slug=slug, wholesale=wholesale) for slug, wholesale in prices.items()}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "var" / FILE_NAME


def test_the_first_start_names_no_price_and_keeps_them_for_the_next(file: Path) -> None:
    assert ServedPrices(file).note(models(a=Prices(150_000, 75_000, 600_000))) is None
    assert file.stat().st_mode & 0o777 == 0o600
    assert ServedPrices(file).note(models(a=Prices(150_000, 75_000, 600_000))) is None


def test_changed_prices_are_named_once_by_model_and_key(file: Path) -> None:
    ServedPrices(file).note(
        models(a=Prices(150_000, 75_000, 600_000), b=Prices(1, 1, 1), gone=Prices(1, 1, 1))
    )
    after = models(a=Prices(150_000, 80_000, 500_000, 190_000), b=Prices(1, 1, 1), new=Prices(1, 1, 1))
    served = ServedPrices(file)
    assert served.note(after) == (
        "a: output_price_per_m 0.6 → 0.5; a: cached_input_price_per_m 0.075 → 0.08;"
        " a: cache_write_price_per_m none → 0.19"
    )
    assert served.note(after) is None
    assert ServedPrices(file).note(after) is None


def test_a_line_names_a_bounded_number(file: Path) -> None:
    slugs = [f"m{number:02}" for number in range(MAX_NAMED + 5)]
    ServedPrices(file).note(models(**dict.fromkeys(slugs, Prices(1, 1, 1))))
    line = ServedPrices(file).note(models(**dict.fromkeys(slugs, Prices(1, 1, 2))))
    assert line is not None
    assert line.count("→") == MAX_NAMED
    assert line.endswith("; and 5 more")


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', "[" * 100_000, "\0"])
def test_a_damaged_file_counts_as_none_and_is_replaced(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_text(text)
    assert ServedPrices(file).note(models(a=Prices(1, 1, 1))) is None
    assert ServedPrices(file).note(models(a=Prices(1, 1, 2))) == "a: output_price_per_m 0.000001 → 0.000002"


def test_prices_that_can_not_be_kept_are_tried_again(file: Path) -> None:
    file.parent.mkdir()
    file.mkdir()
    served, now = ServedPrices(file), models(a=Prices(1, 1, 1))
    for _ in range(2):
        with pytest.raises(OSError):
            served.note(now)
    file.rmdir()
    assert served.note(now) is None
    assert file.exists()
