"""docs/configuration.md and proxy.conf have every key that operators may write, with its default."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from rig.configuration import ROOT

from addon.settings import (
    catalog_schema,
    conf_schema,
    family_schema,
    price_schema,
    price_time_schema,
    workspace_schema,
)
from addon.settings.conf_schema import ProxyConf
from addon.settings.settings import load_conf
from addon.settings.validation import Table

DOCUMENT = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")

SECTIONS: dict[str, type[Table]] = {
    "`[listen]`": conf_schema.Listen,
    "`[admin]`": conf_schema.Admin,
    "`[paths]`": conf_schema.Paths,
    "`[state]`": conf_schema.State,
    "`[ledger]`": conf_schema.Ledger,
    "`[limits]`": conf_schema.Limits,
    "`[upstream]`": conf_schema.Upstream,
    "`[billing]`": conf_schema.Billing,
    "`[sandbox]`": conf_schema.Sandbox,
    "`[policies]`": conf_schema.Policies,
    "`[alerts]`": conf_schema.Alerts,
    "`[log]`": conf_schema.Log,
    "`[metrics]`": conf_schema.Metrics,
    "`[PROVIDER]`": catalog_schema.ProviderTable,
    "`[FAMILY]`": family_schema.FamilyTable,
    "`[FAMILY.estimator]`": family_schema.EstimatorTable,
    "`[FAMILY.responses]`": family_schema.ResponsesTable,
    '`["slug"]`': catalog_schema.ModelTable,
    '`[["slug".tiers]]`': price_schema.TierTable,
    '`[["slug".deployments]]`': catalog_schema.DeploymentTable,
    '`["slug".service_tiers.NAME]`': price_schema.ServiceTierTable,
    '`[["slug".dated]]`': price_time_schema.DatedTable,
    '`[["slug".hours]]`': price_time_schema.HoursTable,
    "workspace": workspace_schema.WorkspaceTable,
    "`[[keys]]`": workspace_schema.KeyTable,
    "`[byok.PROVIDER]`": workspace_schema.ByokTable,
    "`[[rules]]`": workspace_schema.RuleTable,
    "`[[heuristics]]`": workspace_schema.HeuristicTable,
    "`[[aliases]]`": workspace_schema.AliasTable,
    "`[[budgets]]`": workspace_schema.BudgetTable,
}
SHARED = (
    price_schema.PricesTable,
    price_schema.TieredPricesTable,
    price_schema.ServedPricesTable,
    price_time_schema.HourlyPricesTable,
    price_time_schema.TimedPricesTable,
    catalog_schema.PlaceTable,
    catalog_schema.QuotaTable,
)
"""What several sections have in common."""
# A rule of the whole table requires these keys; their fields do not.
REQUIRED_BY_RULE = {
    *(("`[PROVIDER]`", "base_url"), ("`[PROVIDER]`", "platform_key")),
    *(('`["slug"]`', "output_price_per_m"), ('`["slug"]`', "max_completion_tokens")),
}


def documented_rows(heading: str) -> dict[str, list[str]]:
    """Return the rows of the table below ``### heading``: key → [type, default, meaning]."""
    _, _, rest = DOCUMENT.partition(f"\n### {heading}\n")
    section = re.split(r"\n##", rest)[0]
    rows = [
        re.split(r"\s*(?<!\\)\|\s*", line.strip("| \n")) for line in section.splitlines() if line[:3] == "| `"
    ]
    return {row[0].strip("`"): row[1:] for row in rows}


def keys_of(schema: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a schema by their names in files."""
    return {field.alias or name: field for name, field in schema.model_fields.items()}


def shown_default(section: str, key: str, field: FieldInfo) -> str:
    """Return the default of a field in the notation of the document."""
    if field.is_required() or (section, key) in REQUIRED_BY_RULE:
        return "required"
    if key in {"tls_certificate", "catalog_overlay", "archives"}:
        return '`""`'
    value: Any = field.default
    if value is None:
        return "none"
    if isinstance(value, Table):
        return "`{}`"
    if isinstance(value, bool | int | float):
        return f"`{str(value).lower()}`"
    if isinstance(value, frozenset | tuple):
        return f"`{json.dumps(list(value))}`"
    if isinstance(value, dict):
        return f"`{value}`"
    text = value.get_secret_value() if hasattr(value, "get_secret_value") else value
    return f'`"{text}"`'


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_documents_exactly_the_keys_of_its_schema(section: str) -> None:
    assert list(documented_rows(section)) == list(keys_of(SECTIONS[section]))


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_has_the_default_and_the_meaning_of_each_key(section: str) -> None:
    rows = documented_rows(section)
    for key, field in keys_of(SECTIONS[section]).items():
        kind, default, meaning = rows[key]
        assert default == shown_default(section, key, field), key
        assert kind, key
        assert len(meaning) > 10, key


def test_no_schema_is_left_out_of_the_document() -> None:
    modules = (conf_schema, workspace_schema, catalog_schema, family_schema, price_schema, price_time_schema)
    members = [member for module in modules for member in vars(module).values()]
    schemas = {one for one in members if isinstance(one, type) and issubclass(one, Table)}
    assert schemas - {Table, ProxyConf, *SHARED} == set(SECTIONS.values())
    assert {f"`[{name}]`" for name in ProxyConf.model_fields} < set(SECTIONS)


def test_the_shipped_proxy_conf_has_every_key(tmp_path: Path) -> None:
    shipped = tomllib.loads((ROOT / "proxy.conf").read_text(encoding="utf-8"))
    assert {name: list(section) for name, section in shipped.items()} == {
        name: list(SECTIONS[f"`[{name}]`"].model_fields) for name in ProxyConf.model_fields
    }


def test_the_shipped_proxy_conf_has_the_defaults(tmp_path: Path) -> None:
    shipped, empty = tmp_path / "shipped.conf", tmp_path / "empty.conf"
    shipped.write_bytes((ROOT / "proxy.conf").read_bytes())
    empty.write_text("")
    assert load_conf(shipped) == load_conf(empty)
