"""``tollgate catalog``: the shipped prices agree with the pinned package, and the check finds any that does not."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rig.configuration import ROOT

from addon.commands.catalog import catalog
from addon.commands.catalog_comparison import compare_prices
from addon.settings.settings import load_settings
from policies.family import Family
from policies.model import Model
from policies.price_times import Hours, TimedPrices
from policies.prices import Prices, Tier
from policies.provider import Provider

CATALOG = ROOT / "catalog_data"
# The day on which the prices of models.toml were read. Later, announced changes of the vendors come into force.
READ_ON = date(2026, 11, 20)

type Run = Callable[..., Result]


def _conf(folder: Path, catalog_folder: Path = CATALOG) -> Path:
    (folder / "workspaces").mkdir(exist_ok=True)
    conf = folder / "proxy.conf"
    conf.write_text(f'[paths]\ncatalog = "{catalog_folder}"\nworkspaces = "workspaces"\n', encoding="utf-8")
    return conf


@pytest.fixture
def run(tmp_path: Path) -> Run:
    conf = _conf(tmp_path)
    return lambda *arguments, conf=conf: CliRunner().invoke(catalog, [*arguments, "--conf", str(conf)])


def _model(base_url: str, upstream_model_id: str, prices: Prices) -> Model:
    provider = Provider("VENDOR", base_url, "openai", ())
    return Model("slug", provider, upstream_model_id, Family("plain"), prices, prices, 100, False, True)


def test_the_shipped_catalog_has_no_disagreement_with_the_pinned_package(tmp_path: Path) -> None:
    models = load_settings(_conf(tmp_path), {}).models.values()
    comparison = compare_prices(models, READ_ON)
    assert comparison.disagreements == ()
    assert comparison.unknown == ()
    assert comparison.checked == sum(not model.provider.builtin for model in models) >= 80


def test_each_price_that_differs_is_listed_with_both_figures() -> None:
    model = _model("https://api.openai.com/v1", "gpt-4o-mini", Prices(160_000, 75_000, 700_000))
    comparison = compare_prices([model], READ_ON)
    assert [(d.slug, d.price, d.catalog, d.published) for d in comparison.disagreements] == [
        ("slug", "input", Decimal("0.16"), Decimal("0.15")),
        ("slug", "output", Decimal("0.7"), Decimal("0.6")),
    ]


@pytest.mark.parametrize(
    ("window", "counts_both", "listed"),
    [
        (128_000, True, False),
        (134_400, True, False),  # rounded by a twentieth
        (134_401, False, True),
        (64_000, True, False),
        (None, True, True),
        (None, False, False),
    ],
)
def test_a_window_that_is_too_wide_or_lacks_is_listed(
    window: int | None, counts_both: bool, listed: bool
) -> None:
    family = Family("plain", cap_within_window=counts_both)
    made = _model("https://api.openai.com/v1", "gpt-4o-mini", Prices(150_000, 75_000, 600_000))
    found = compare_prices([replace(made, context_window=window, family=family)], READ_ON).disagreements
    stated = None if window is None else Decimal(window)
    expected = [("context window", stated, Decimal(128_000))] if listed else []
    assert [(one.price, one.catalog, one.published) for one in found] == expected


def test_an_unpublished_cached_price_is_the_input_price() -> None:
    model = _model(
        "https://api.cohere.ai/compatibility/v1", "command-a-03-2025", Prices(2_500_000, 1, 10_000_000)
    )
    (disagreement,) = compare_prices([model], READ_ON).disagreements
    assert (disagreement.price, disagreement.published) == ("cached input", Decimal("2.5"))


def test_each_price_of_a_tier_is_compared() -> None:
    above = Prices(5_000_000, 500_000, 22_500_000)
    prices = Prices(2_500_000, 250_000, 15_000_000, tiers=(Tier(272_000, above),))
    model = _model("https://api.openai.com/v1", "gpt-5.4", prices)
    assert compare_prices([model], READ_ON).disagreements == ()
    cheaper = replace(prices, tiers=(Tier(272_000, replace(above, output_microusd_per_mtok=15_000_000)),))
    [wrong] = compare_prices([replace(model, wholesale=cheaper)], READ_ON).disagreements
    assert (wrong.price, wrong.catalog, wrong.published) == (
        "output above 272000",
        Decimal(15),
        Decimal("22.5"),
    )
    flat = compare_prices([replace(model, wholesale=replace(prices, tiers=()))], READ_ON).disagreements
    assert {one.price for one in flat} == {
        f"{kind} above 272000" for kind in ("input", "cached input", "output")
    }
    later = replace(prices, tiers=(Tier(300_000, above),))
    found = compare_prices([replace(model, wholesale=later)], READ_ON).disagreements
    assert {one.price.split(" above ")[1] for one in found} == {"272000"}


def test_the_highest_price_of_the_day_is_compared() -> None:
    peak = _model("https://api.deepseek.com", "deepseek-v4-pro", Prices(1_320_000, 44_000, 3_960_000))
    off_peak = replace(peak, slug="off-peak", wholesale=Prices(660_000, 22_000, 1_980_000))
    comparison = compare_prices([peak, off_peak], READ_ON)
    assert {disagreement.slug for disagreement in comparison.disagreements} == {"off-peak"}


def test_an_announced_change_is_named_before_its_day() -> None:
    model = _model(
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "gemini-3.8-flash",
        Prices(750_000, 75_000, 3_750_000),
    )
    announced = compare_prices([model], date(2026, 12, 31)).disagreements
    assert [one.price for one in announced] == [
        f"{kind} dated[2027-01-01]" for kind in ("input", "cached input", "output")
    ]
    assert [one.price for one in compare_prices([model], date(2027, 1, 1)).disagreements] == [
        *("input", "cached input", "output")
    ]


def test_prices_of_a_day_to_come_are_compared_with_those_announced() -> None:
    doubled = Prices(1_500_000, 150_000, 7_500_000)
    model = _model(
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "gemini-3.8-flash",
        Prices(750_000, 75_000, 3_750_000),
    )
    known = replace(model, timed=(TimedPrices(doubled, doubled, date(2027, 1, 1)),))
    for day in (date(2026, 11, 23), date(2026, 12, 31), date(2027, 1, 1), date(2027, 3, 1)):
        assert compare_prices([known], day).disagreements == ()
    early = replace(model, timed=(TimedPrices(doubled, doubled, date(2026, 12, 1)),))
    found = {one.price for one in compare_prices([early], date(2026, 11, 23)).disagreements}
    assert found == {f"{kind} dated[2026-12-01]" for kind in ("input", "cached input", "output")}


@pytest.mark.parametrize("day", [date(2026, 11, 20), date(2026, 11, 21)], ids=["Friday", "Saturday"])
def test_prices_of_hours_are_compared_hour_by_hour(day: date) -> None:
    peak, off_peak = Prices(1_320_000, 44_000, 3_960_000), Prices(660_000, 22_000, 1_980_000)
    workdays = Hours(((60, 240), (360, 600)), frozenset(range(5)))
    model = _model("https://api.deepseek.com", "deepseek-v4-pro", off_peak)
    right = replace(model, timed=(TimedPrices(peak, peak, None, workdays),))
    assert compare_prices([right], day).disagreements == ()
    too_short = replace(right, timed=(TimedPrices(peak, peak, None, Hours(((60, 240),))),))
    found = {one.price for one in compare_prices([too_short], day).disagreements}
    assert found == {"input", "cached input", "output"}
    too_cheap = replace(right, timed=(TimedPrices(off_peak, off_peak, None, workdays),))
    found = {one.price for one in compare_prices([too_cheap], day).disagreements}
    place = "hours[01:00-04:00,06:00-10:00 mon,tue,wed,thu,fri]"
    assert found == {f"{kind} {place}" for kind in ("input", "cached input", "output")}


@pytest.mark.parametrize(
    ("base_url", "upstream_model_id"),
    [("https://api.openai.com/v1", "no-such-model"), ("https://vendor.example/v1", "gpt-4o")],
)
def test_an_unpublished_model_is_unknown_and_not_a_disagreement(
    base_url: str, upstream_model_id: str
) -> None:
    comparison = compare_prices([_model(base_url, upstream_model_id, Prices(1, 1, 1))], READ_ON)
    assert comparison.unknown == ("slug",)
    assert (comparison.checked, comparison.disagreements) == (0, ())


def test_the_builtin_provider_is_skipped() -> None:
    model = _model("", "sandbox-chat-001", Prices(1, 1, 1))
    model = replace(model, provider=replace(model.provider, builtin=True))
    assert compare_prices([model], READ_ON).unknown == ()


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A conf whose catalog has one wrong price and one unpublished model."""
    folder = tmp_path / "catalog"
    folder.mkdir()
    for name in ("providers.toml", "families.toml"):
        (folder / name).write_text((CATALOG / name).read_text(encoding="utf-8"), encoding="utf-8")
    row = '["{0}"]\nprovider = "MISTRAL"\nupstream_model_id = "{0}"\nfamily = "mistral"\ninput_price_per_m = "9"\n'
    row += 'output_price_per_m = "1.5"\ncached_input_price_per_m = "0.05"\nmax_completion_tokens = 100\n'
    row += "context_window = 1000\n"
    text = row.format("mistral-large-2512") + row.format("made-up-9000")
    (folder / "models.toml").write_text(text, encoding="utf-8")
    return _conf(tmp_path, folder)


def test_check_prints_a_table_and_exits_with_1_when_prices_disagree(run: Run, wrong: Path) -> None:
    result = run("check", conf=wrong)
    assert result.exit_code == 1
    assert re.search(r"mistral-large-2512 +MISTRAL +mistral-large-2512 +input +9 +0\.5", result.output)
    assert "made-up-9000" in result.output
    assert "1 models compared" in result.output
    assert "1 figures disagree, 1 models unknown" in result.output


def test_check_prints_the_same_as_json(run: Run, wrong: Path) -> None:
    result = run("check", "--json", conf=wrong)
    assert result.exit_code == 1
    answer = json.loads(result.output)
    assert answer["unknown"] == ["made-up-9000"]
    (disagreement,) = answer["disagreements"]
    assert (disagreement["price"], disagreement["catalog"], disagreement["published"]) == (
        "input",
        "9",
        "0.5",
    )


def test_check_exits_with_0_when_all_prices_agree(run: Run, wrong: Path) -> None:
    models = wrong.parent / "catalog" / "models.toml"
    right = models.read_text(encoding="utf-8").replace('input_price_per_m = "9"', 'input_price_per_m = "0.5"')
    models.write_text(right, encoding="utf-8")
    result = run("check", conf=wrong)
    assert result.exit_code == 0
    assert "0 figures disagree, 1 models unknown" in result.output


def test_list_prints_the_public_rows_with_retail_prices(run: Run) -> None:
    rows = {row["modelSlug"]: row for row in json.loads(run("list", "--json").output)}
    assert rows["gpt-4o-mini"]["inputPricePerMRetail"] == 0.156
    assert rows["gpt-4o-mini"].keys() == {
        "modelSlug",
        "provider",
        "upstreamModelId",
        "inputPricePerMRetail",
        "outputPricePerMRetail",
        "isByokOnly",
        "id",
        "object",
    }
    assert re.search(r"gpt-4o-mini +OPENAI +0\.156 +0\.624 +True", run("list").output)


@pytest.mark.parametrize("command", ["list", "check"])
def test_a_conf_that_does_not_load_gives_one_line(run: Run, tmp_path: Path, command: str) -> None:
    broken = tmp_path / "broken.conf"
    broken.write_text("[paths]\ncatalogue = 'x'\n", encoding="utf-8")
    result = run(command, conf=broken)
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert "catalogue" in result.output
    assert "Traceback" not in result.output
