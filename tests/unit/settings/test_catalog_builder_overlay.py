"""The overlay of the catalog: its tables replace those of the catalog, whole, and one line hides a model."""

import shutil
from pathlib import Path

import pytest
from rig.live_settings import LiveSettings
from rig.settings_files import CONF, MODELS, contents, edit, write_files

from addon.settings.errors import SettingsError
from addon.settings.settings import Settings, load_settings
from addon.settings.value_types import SHIPPED_CATALOG

OVERLAY = '[paths]\ncatalog_overlay = "own"\n'
OWN_MODEL = """\
["{slug}"]
provider = "{provider}"
upstream_model_id = "own-1"
family = "chat"
input_price_per_m = "9"
output_price_per_m = "{output}"
max_completion_tokens = 10
"""


def own_model(slug: str = "gpt-4o-mini", provider: str = "OPENAI", output: str = "19") -> str:
    return OWN_MODEL.format(slug=slug, provider=provider, output=output)


def load(folder: Path, **files: str) -> Settings:
    """Load the standard files with an overlay of these files, by name without ``.toml``."""
    conf_file = write_files(folder)
    edit(conf_file, "", OVERLAY)
    (folder / "own").mkdir()
    for name, text in files.items():
        (folder / "own" / f"{name}.toml").write_text(text)
    return load_settings(conf_file, {"OWN_KEY": "own-fake-key"})


def test_an_overlay_without_files_changes_nothing(tmp_path: Path) -> None:
    plain = load_settings(write_files(tmp_path / "plain"), {})
    overlaid = load(tmp_path / "overlaid")
    assert (overlaid.models, overlaid.providers, overlaid.families) == (
        plain.models,
        plain.providers,
        plain.families,
    )
    assert overlaid.overlaid_slugs == frozenset()


def test_a_table_replaces_the_whole_table_of_the_catalog(tmp_path: Path) -> None:
    settings = load(tmp_path, models=own_model(), families="[reasoning]\nstop_limit = 2\n")
    model = settings.models["gpt-4o-mini"]
    assert (model.upstream_model_id, model.max_completion_tokens) == ("own-1", 10)
    # The catalog's cached price is not merged in: cached tokens cost the overlay's input price.
    assert model.wholesale.cached_input_microusd_per_mtok == model.wholesale.input_microusd_per_mtok
    assert settings.families["reasoning"].stop_limit == 2
    assert settings.families["reasoning"].drops == frozenset()
    assert settings.models["openai/gpt-oss-20b"].family == settings.families["reasoning"]
    assert settings.overlaid_slugs == {"gpt-4o-mini"}


def test_an_overlay_adds_providers_families_and_models_that_refer_to_each_other(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        providers='[OWN]\nbase_url = "http://127.0.0.1:1"\ndialect = "openai"\n'
        'platform_key = "env:OWN_KEY"\ncustom_family = "mine"\n',
        families="[mine]\nn_limit = 1\n",
        models=own_model("own-large", "OWN").replace('"chat"', '"mine"'),
    )
    model = settings.models["own-large"]
    assert model.provider.platform_keys[0].get_secret_value() == "own-fake-key"
    assert model.family == model.provider.custom_family == settings.families["mine"]
    assert len(settings.models) == 4


def test_a_secret_file_of_the_overlay_is_relative_to_the_overlay(tmp_path: Path) -> None:
    (tmp_path / "groq.key").write_text("key-of-a-file")
    provider = (
        '[GROQ]\nbase_url = "http://127.0.0.1:1"\ndialect = "openai"\nplatform_key = "file:../groq.key"\n'
    )
    settings = load(tmp_path, providers=provider)
    assert settings.providers["GROQ"].platform_keys[0].get_secret_value() == "key-of-a-file"


def test_one_line_hides_a_model_of_the_catalog(tmp_path: Path) -> None:
    settings = load(tmp_path, models='["openai/gpt-oss-20b"]\nactive = false\n')
    model = settings.models["openai/gpt-oss-20b"]
    assert (model.active, model.upstream_model_id) == (False, "gpt-oss-20b")
    assert settings.overlaid_slugs == {"openai/gpt-oss-20b"}
    assert settings.unknown_hidden == ()


def test_hiding_a_model_that_the_catalog_no_longer_has_is_no_error(tmp_path: Path) -> None:
    settings = load(tmp_path, models='["gone"]\nactive = false\n')
    assert "gone" not in settings.models
    assert settings.unknown_hidden == ("gone",)


def test_a_name_in_the_overlay_takes_an_alias_from_the_catalog(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    edit(conf_file, "", OVERLAY)
    edit(tmp_path / MODELS, "16384", '16384\naliases = ["own-slug", "Own-Alias", "mini"]')
    (tmp_path / "own").mkdir()
    own = own_model("Own-slug") + 'aliases = ["own-alias"]\n'
    (tmp_path / "own" / "models.toml").write_text(own)
    models = load_settings(conf_file, {}).models
    assert (models["gpt-4o-mini"].aliases, models["Own-slug"].aliases) == (("mini",), ("own-alias",))


@pytest.mark.parametrize(
    ("name", "text", "key", "reason"),
    [
        (
            "models",
            own_model("a") + 'aliases = ["GPT-4o-mini"]\n',
            "a.aliases[0]",
            '"GPT-4o-mini" is the slug of another model',
        ),
        (
            "models",
            own_model("a") + 'aliases = ["x"]\n' + own_model("b") + 'aliases = ["y", "X"]\n',
            "b.aliases[1]",
            '"X" is an alias of "a" already',
        ),
        ("models", own_model("a") + 'aliases = ["x", "x"]\n', "a.aliases", 'names "x" twice'),
        ("models", own_model("a") + 'aliases = ["two words"]\n', "a.aliases[0]", "printable ASCII"),
        ("models", '["gpt-4o-mini"]\nactive = true\n', "gpt-4o-mini.provider", "is required"),
        ("models", '["a"]\nactive = false\nbyok_only = true\n', "a.provider", "is required"),
        ("models", own_model("GPT-4o-mini"), "GPT-4o-mini", 'differs from "gpt-4o-mini" in case only'),
        ("models", own_model(provider="OPENAY"), "gpt-4o-mini.provider", 'did you mean "OPENAI"?'),
        (
            "models",
            own_model(output="free"),
            "gpt-4o-mini.output_price_per_m",
            "is not a plain decimal number",
        ),
        ("models", "[broken", "", "is not TOML"),
        ("families", "[chat]\ndrop = []\n", "chat.drop", 'did you mean "drops"?'),
        ("providers", "[OPENAI]\n", "OPENAI.dialect", "is required"),
    ],
)
def test_an_error_names_the_file_of_the_overlay(
    tmp_path: Path, name: str, text: str, key: str, reason: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, **{name: text})
    assert caught.value.file == tmp_path / "own" / f"{name}.toml"
    assert caught.value.key == key
    assert reason in caught.value.reason


def test_a_catalog_table_that_lost_its_provider_names_the_file_of_the_catalog(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    edit(tmp_path / MODELS, 'provider = "GROQ"', 'provider = "GONE"')
    edit(conf_file, "", OVERLAY)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "models.toml").write_text(own_model())
    with pytest.raises(SettingsError, match="unknown provider") as caught:
        load_settings(conf_file, {})
    assert caught.value.file == tmp_path / MODELS


def test_a_table_of_the_overlay_replaces_one_that_does_not_resolve(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    edit(tmp_path / MODELS, 'provider = "OPENAI"', 'provider = "GONE"')
    edit(conf_file, "", OVERLAY)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "models.toml").write_text(own_model())
    assert load_settings(conf_file, {}).models["gpt-4o-mini"].provider.name == "OPENAI"


@pytest.mark.parametrize("is_file", [True, False])
def test_an_overlay_that_is_no_folder_is_an_error_of_the_conf(tmp_path: Path, is_file: bool) -> None:
    conf_file = write_files(tmp_path)
    edit(conf_file, "", OVERLAY)
    if is_file:
        (tmp_path / "own").touch()
    with pytest.raises(SettingsError, match="own: no such folder") as caught:
        load_settings(conf_file, {})
    assert (caught.value.file, caught.value.key) == (conf_file, "paths.catalog_overlay")


def test_an_empty_catalog_is_the_shipped_one_wherever_the_conf_is(tmp_path: Path) -> None:
    conf_file = write_files(tmp_path)
    shutil.rmtree(tmp_path / "catalog_data")
    edit(conf_file, "", '[paths]\ncatalog = ""\n')
    settings = load_settings(conf_file, {})
    assert settings.conf.paths.catalog == SHIPPED_CATALOG
    assert "sandbox-chat" in settings.models


# Edits while a gateway runs.


@pytest.fixture
def overlaid(tmp_path: Path) -> LiveSettings:
    """Settings with an overlay that has no file yet."""
    edit(write_files(tmp_path), "", OVERLAY)
    (tmp_path / "own").mkdir()
    return LiveSettings(tmp_path)


def output_price(live: LiveSettings) -> int:
    return live.settings.models["gpt-4o-mini"].wholesale.output_microusd_per_mtok


def test_a_file_that_appears_changes_and_goes_takes_effect(overlaid: LiveSettings) -> None:
    assert output_price(overlaid) == 600_000
    overlaid.write("own/models.toml", own_model())
    overlaid.after(2)
    assert output_price(overlaid) == 19_000_000
    overlaid.edit("own/models.toml", '"19"', '"20"')
    overlaid.after(2)
    assert output_price(overlaid) == 20_000_000
    (overlaid.folder / "own/models.toml").unlink()
    overlaid.after(2)
    assert output_price(overlaid) == 600_000
    assert overlaid.problems == ""


def test_a_broken_file_is_named_and_the_last_good_settings_stay(overlaid: LiveSettings) -> None:
    overlaid.write("own/models.toml", own_model())
    overlaid.after(2)
    overlaid.edit("own/models.toml", '"19"', "19")
    overlaid.after(2)
    assert overlaid.problems.startswith(
        f"{overlaid.folder}/own/models.toml: gpt-4o-mini.output_price_per_m: "
    )
    assert output_price(overlaid) == 19_000_000
    (overlaid.folder / "own/models.toml").unlink()
    overlaid.after(2)
    assert (overlaid.problems, output_price(overlaid)) == ("", 600_000)


def test_a_folder_that_goes_is_a_problem_until_it_is_back(overlaid: LiveSettings) -> None:
    overlaid.write("own/models.toml", own_model())
    overlaid.after(2)
    (overlaid.folder / "own").rename(overlaid.folder / "away")
    overlaid.after(2)
    assert f"{overlaid.folder / CONF}: paths.catalog_overlay: " in overlaid.problems
    assert output_price(overlaid) == 19_000_000
    (overlaid.folder / "own").mkdir()
    overlaid.after(2)
    assert (overlaid.problems, output_price(overlaid)) == ("", 600_000)


def test_the_overlay_of_a_running_gateway_changes_at_its_restart_only(live: LiveSettings) -> None:
    (live.folder / "own").mkdir()
    live.write("own/models.toml", own_model())
    live.edit(CONF, "", OVERLAY)
    live.after(2)
    assert output_price(live) == 600_000
    live.start()
    assert output_price(live) == 19_000_000


def test_loading_changes_no_file(tmp_path: Path) -> None:
    load(tmp_path, models=own_model())
    before = contents(tmp_path)
    load_settings(tmp_path / CONF, {})
    assert contents(tmp_path) == before
