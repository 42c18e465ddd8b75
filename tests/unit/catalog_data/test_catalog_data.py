"""The shipped catalog: it loads, it has the documented size, and its families are valid."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

import pytest
from rig.configuration import ROOT

from addon.settings.settings import Settings, load_settings
from policies.sanitize import sanitize

CATALOG = ROOT / "catalog_data"
CONTRACT_FIELDS: Mapping[str, Any] = {
    "messages": [{"role": "user", "content": "Hello"}],
    "temperature": 0.5,
    "top_p": 0.5,
    "n": 1,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "seed": 1,
    "stop": ["a", "b"],
    "logprobs": True,
    "top_logprobs": 1,
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "response_format": {"type": "json_object"},
    "logit_bias": {"1": 1},
    "user": "u",
}


# Only the operator knows the models of an own server, or the names of deployments.
FOR_MODELS_OF_OPERATORS = {
    *("openai-reasoning", "openai-pro", "azure-foundry", "vertex", "huggingface"),
    *("vllm", "ollama", "llamacpp", "tgi"),
}
WITH_MODELS_OF_OPERATORS = {"HUGGINGFACE", "VLLM", "OLLAMA", "LLAMACPP", "TGI"}


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("shipped")
    (folder / "workspaces").mkdir()
    conf = folder / "proxy.conf"
    conf.write_text(f'[paths]\ncatalog = "{CATALOG}"\nworkspaces = "workspaces"\n', encoding="utf-8")
    return load_settings(conf, {})


def test_the_catalog_has_at_least_eighty_real_models_of_ten_providers(shipped: Settings) -> None:
    real = [model for model in shipped.models.values() if not model.provider.builtin]
    assert len(real) >= 80
    assert len({model.provider.name for model in real}) >= 10
    assert len({(model.provider.name, model.upstream_model_id) for model in real}) == len(real)


def test_slugs_are_lower_case_and_fit_a_url_and_a_log_line(shipped: Settings) -> None:
    assert [slug for slug in shipped.models if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", slug)] == []


def test_no_model_is_free_and_none_has_an_absurd_maximum(shipped: Settings) -> None:
    for model in shipped.models.values():
        prices = model.wholesale
        if model.serves == "embeddings":
            assert (prices.input_microusd_per_mtok > 0, prices.output_microusd_per_mtok) == (True, 0), (
                model.slug
            )
            continue
        assert 0 < prices.cached_input_microusd_per_mtok <= prices.input_microusd_per_mtok, model.slug
        assert prices.output_microusd_per_mtok >= prices.input_microusd_per_mtok, model.slug
        assert 1_000 <= model.max_completion_tokens <= 1_000_000, model.slug


def test_the_catalog_has_the_sandbox_models(shipped: Settings) -> None:
    sandbox = {slug: model for slug, model in shipped.models.items() if model.provider.builtin}
    assert {slug: model.upstream_model_id for slug, model in sandbox.items()} == {
        "sandbox-chat": "sandbox-chat-001",
        "sandbox-reasoner": "sandbox-reasoner-001",
    }


def test_every_provider_and_every_family_is_used(shipped: Settings) -> None:
    models = shipped.models.values()
    assert {model.provider.name for model in models} == shipped.providers.keys() - WITH_MODELS_OF_OPERATORS
    used = {model.family.name for model in models}
    assert shipped.families.keys() - used <= FOR_MODELS_OF_OPERATORS


def test_families_drop_clamp_and_rename_fields_of_the_contract_only(shipped: Settings) -> None:
    known = CONTRACT_FIELDS.keys() | {"dimensions"}  # of embeddings
    for family in shipped.families.values():
        assert family.drops | family.clamps.keys() | family.renames.keys() <= known, family.name
        assert not family.extra & known, family.name
        assert not family.drops & (family.clamps.keys() | family.renames.keys()), family.name


def test_every_model_gets_messages_tools_and_exactly_one_cap(shipped: Settings) -> None:
    for model in [one for one in shipped.models.values() if one.serves == "chat"]:
        # Some families refuse a response format by name, and some models refuse tools, or tools in a stream.
        kept = ["messages"] if "tools" in model.lacks else ["messages", "tools", "tool_choice"]
        unsent = {"tools", "tool_choice"} - set(kept)
        fields = {name: value for name, value in CONTRACT_FIELDS.items() if name not in unsent}
        is_streamed = "streamed_tools" not in model.lacks
        body = sanitize({**fields, "response_format": {"type": "text"}}, model, 17, is_streamed).body
        assert body["model"] == model.upstream_model_id
        assert all(body[field] == CONTRACT_FIELDS[field] for field in kept if field != "tools")
        assert len(body.get("tools", [])) == len(fields.get("tools", []))
        assert [body.get(cap) for cap in ("max_tokens", "max_completion_tokens")].count(17) == 1


def test_every_line_of_a_family_and_every_figure_of_a_model_names_its_source() -> None:
    lines = (CATALOG / "families.toml").read_text(encoding="utf-8").split("\n[sandbox]\n")[0].splitlines()
    before = ["", *lines]
    stated = re.compile(r'(\w+ = (?!\[$)|    "\w+",)')
    assert [
        line
        for line, above in zip(lines, before, strict=False)
        if stated.match(line) and "  # " not in line and not above.startswith("# ")
    ] == []
    models = (CATALOG / "models.toml").read_text(encoding="utf-8").split('["sandbox-chat"]')[0]
    assert re.findall(r"^(?:max_completion_tokens|context_window) = \d+$", models, re.MULTILINE) == []


def test_every_active_model_of_a_vendor_has_a_window(shipped: Settings) -> None:
    real = [model for model in shipped.models.values() if model.active and not model.provider.builtin]
    assert [model.slug for model in real if model.context_window is None] == []


def test_prices_are_strings_so_that_no_digit_is_lost() -> None:
    tables = tomllib.loads((CATALOG / "models.toml").read_text(encoding="utf-8")).values()
    stated = [value for table in tables for key, value in table.items() if key.endswith("_price_per_m")]
    assert len(stated) > 2 * 80
    assert all(isinstance(value, str) for value in stated)
