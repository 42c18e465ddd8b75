"""Further places of a model in models.toml: what they inherit, and what does not load."""

from decimal import Decimal
from pathlib import Path

import pytest
from rig.configuration import Configuration, model, provider, workspace

from addon.settings.errors import SettingsError
from addon.settings.settings import Settings, load_settings
from policies.money import compute_retail_prices
from policies.place_quota import PlaceQuota

TIERS = [{"above_prompt_tokens": 1000, "input_price_per_m": "9"}]
AT_B = {"provider": "B", "upstream_model_id": "b"}


def load(folder: Path, **changes: object) -> Settings:
    written = Configuration(
        providers={name: provider("http://127.0.0.1:20000/v1") for name in "AB"},
        models={"m": model(provider="A", upstream_model_id="a", **changes)},
        workspaces={"acme": workspace(("ci", f"tg_{'a':0<40}", True))},
    ).write(folder)
    return load_settings(written, {"TEST_PROVIDER_KEY": "fake"})


def test_a_place_has_what_its_table_says_and_else_what_the_model_has(tmp_path: Path) -> None:
    changed = AT_B | {"weight": 3, "family": "older-chat", "max_completion_tokens": 99, "context_window": 200}
    settings = load(tmp_path, order="first", deployments=[AT_B, changed | {"upstream_model_id": "c"}])
    first, second, third = settings.models["m"].places
    assert [one.place for one in (first, second, third)] == ["A/a", "B/b", "B/c"]
    assert (second.family, second.weight, second.max_completion_tokens) == (first.family, 1, 16384)
    assert (third.family.name, third.weight) == ("older-chat", 3)
    assert (third.max_completion_tokens, third.context_window) == (99, 200)
    assert {one.order for one in (first, second, third)} == {"first"}
    assert {one.deployment for one in (first, second, third)} == {"A/a", "B/b", "B/c"}


def test_each_place_has_its_own_quota_whichever_model_is_there(tmp_path: Path) -> None:
    written = Configuration(
        providers={name: provider("http://127.0.0.1:20000/v1") for name in "AB"},
        models={
            "m": model(provider="A", upstream_model_id="a", rpm=9, deployments=[AT_B | {"max_in_flight": 2}]),
            "n": model(provider="B", upstream_model_id="b", max_in_flight=3, tpm=50),
            "o": model(provider="B", upstream_model_id="c"),
        },
        workspaces={"acme": workspace(("ci", f"tg_{'a':0<40}", True))},
    ).write(tmp_path)
    models = load_settings(written, {"TEST_PROVIDER_KEY": "fake"}).models
    assert [place.quota for place in models["m"].places] == [PlaceQuota(rpm=9), PlaceQuota(2, None, 50)]
    assert models["n"].quota == PlaceQuota(2, None, 50)
    assert models["o"].quota is None


def test_a_model_with_one_place_has_no_deployment(tmp_path: Path) -> None:
    assert load(tmp_path).models["m"].deployment is None


def test_retail_is_the_models_and_wholesale_the_places(tmp_path: Path) -> None:
    hours = [{"utc": ["00:00-06:00"], "input_price_per_m": "0.1"}]
    cheap = AT_B | {"input_price_per_m": "0.01"}
    listed, place = load(tmp_path, hours=hours, deployments=[cheap]).models["m"].places
    assert place.retail == listed.retail == compute_retail_prices(listed.wholesale, Decimal(4))
    assert place.wholesale.input_microusd_per_mtok == 10_000
    assert place.wholesale.output_microusd_per_mtok == listed.wholesale.output_microusd_per_mtok
    [at_night], [of_model] = place.timed, listed.timed
    assert (at_night.retail, at_night.wholesale) == (of_model.retail, place.wholesale)
    assert place.price_set.hash != listed.price_set.hash


def test_a_place_may_say_that_it_has_no_tiers(tmp_path: Path) -> None:
    listed, place = load(tmp_path, tiers=TIERS, deployments=[AT_B | {"tiers": []}]).models["m"].places
    assert [len(one.wholesale.tiers) for one in (listed, place)] == [1, 0]
    assert place.retail == listed.retail


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"deployments": [AT_B, AT_B]}, "deployments[1].upstream_model_id", "the same place"),
        (
            {"deployments": [{"provider": "A", "upstream_model_id": "a"}]},
            "deployments[0].upstream_model_id",
            "same place",
        ),
        ({"deployments": [AT_B | {"provider": "C"}]}, "deployments[0].provider", 'unknown provider "C"'),
        ({"deployments": [AT_B | {"family": "odd"}]}, "deployments[0].family", 'unknown family "odd"'),
        ({"deployments": [AT_B | {"weight": -1}]}, "deployments[0].weight", ""),
        ({"deployments": [AT_B | {"context_window": 100}]}, "deployments[0].context_window", "at least"),
        ({"deployments": [AT_B | {"rest": 1}]}, "deployments[0].rest", ""),
        (
            {"tiers": TIERS, "deployments": [AT_B | {"input_price_per_m": "1"}]},
            "deployments[0].upstream_model_id",
            "has no tiers",
        ),
        ({"order": "first"}, "order", "only for a model with deployments"),
        ({"weight": 2}, "weight", "only for a model with deployments"),
        ({"order": "odd", "deployments": [AT_B]}, "order", ""),
        (
            {"deployments": [AT_B | {"upstream_model_id": str(n)} for n in range(16)]},
            "deployments",
            "15",
        ),
    ],
)
def test_a_wrong_place_does_not_load(
    tmp_path: Path, changes: dict[str, object], key: str, reason: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        load(tmp_path, **changes)
    assert key in str(raised.value)
    assert reason in str(raised.value)


def test_each_place_says_whether_its_provider_has_the_responses_api(tmp_path: Path) -> None:
    first, second = load(tmp_path, dialect="responses", deployments=[AT_B]).models["m"].places
    assert (first.dialect, first.prefers_responses) == ("openai", True)
    assert (second.dialect, second.prefers_responses) == ("openai", False)
    (_, there) = load(tmp_path, deployments=[AT_B | {"dialect": "responses"}]).models["m"].places
    assert there.prefers_responses


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"provider": "C", "dialect": "responses"}, "m.dialect"),
        ({"deployments": [AT_B | {"provider": "C", "dialect": "responses"}]}, "m.deployments[0].dialect"),
        ({"family": "only", "deployments": [AT_B | {"provider": "C"}]}, "m.deployments[0].family"),
    ],
)
def test_a_provider_of_another_dialect_has_no_responses_api(
    tmp_path: Path, changes: dict[str, object], place: str
) -> None:
    base = "http://127.0.0.1:20000/v1"
    written = Configuration(
        providers={
            **{name: provider(base) for name in "AB"},
            "C": provider(base, dialect="anthropic"),
        },
        families={"chat": {}, "only": {"responses_only": True}},
        models={"m": model(**{"provider": "A", "upstream_model_id": "a", "family": "chat"} | changes)},
        workspaces={"acme": workspace(("ci", f"tg_{'a':0<40}", True))},
    ).write(tmp_path)
    with pytest.raises(SettingsError, match="C speaks anthropic") as refused:
        load_settings(written, {"TEST_PROVIDER_KEY": "fake"})
    assert refused.value.key == place


def test_a_family_without_chat_completions_needs_no_line(tmp_path: Path) -> None:
    written = Configuration(
        providers={"A": provider("http://127.0.0.1:20000/v1", custom_family="only")},
        families={
            "only": {"responses_only": True, "responses": {"values": {"reasoning_effort": {"a": "b"}}}}
        },
        models={"m": model(provider="A", upstream_model_id="a", family="only")},
        workspaces={"acme": workspace(("ci", f"tg_{'a':0<40}", True))},
    ).write(tmp_path)
    made = load_settings(written, {"TEST_PROVIDER_KEY": "fake"}).models["m"]
    assert (made.dialect, made.prefers_responses) == ("responses", False)
    assert made.family.values == {"reasoning_effort": {"a": "b"}}
