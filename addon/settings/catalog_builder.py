"""The catalog in the types of ``policies/model.py``, made from its files. Every name in them must exist.

The tables of the overlay, ``[paths] catalog_overlay``, replace those of the catalog. Source: docs/catalog.md.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pydantic import TypeAdapter

from addon.settings.catalog_schema import (
    FAMILIES_FILE,
    MODELS_FILE,
    PROVIDERS_FILE,
    DeploymentTable,
    ModelTable,
    PlaceTable,
    ProviderTable,
)
from addon.settings.conf_schema import ProxyConf
from addon.settings.errors import ErrorList, SettingsError, join_errors, join_key_path
from addon.settings.family_schema import FamilyTable
from addon.settings.file_content import parse_toml
from addon.settings.model_aliases import choose_aliases
from addon.settings.place_dialects import check_embeddings, find_prefers_responses
from addon.settings.price_schema import make_prices
from addon.settings.price_time_schema import make_timed_prices, reprice
from addon.settings.provider_builder import ProviderBuilder
from addon.settings.secrets import Secrets
from addon.settings.sources import Sources
from addon.settings.validation import check_known, validate
from addon.text.toml import find_key_line
from addon.text.urls import model_path, path_segment
from policies.allowed_models import fold_slug
from policies.family import Estimator, Family, check_family
from policies.model import Model
from policies.money import compute_retail_prices
from policies.place_quota import PlaceQuota, make_quota
from policies.provider import Provider

type _Place = tuple[str, str]
"""The provider and the upstream model id of a place."""
type _Placed[T] = dict[str, tuple[Path, T]]
"""Tables by name, each with the file that it is in."""

_HIDDEN: Final = MappingProxyType({"active": False})
"""The whole table of the overlay that hides a model of the catalog."""

_PATHS: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {"gemini": model_path, "bedrock": path_segment}
)
"""The function that puts a model id into a path, for the dialects that do so."""


class CatalogBuilder:
    """Builds one catalog, file by file, in the order in which the files depend on each other."""

    def __init__(self, conf: ProxyConf, env: Mapping[str, str], sources: Sources) -> None:
        self._conf = conf
        self._sources = sources
        self.providers: dict[str, Provider] = {}
        self.provider_files: dict[str, Path] = {}
        self.families: dict[str, Family] = {}
        self._providers = ProviderBuilder(Secrets(env, sources, conf.paths.master_keys), self.families)
        self.key_uses = self._providers.key_uses
        self.models: dict[str, Model] = {}
        self._quotas: Mapping[_Place, PlaceQuota] = {}
        self._aliases: Mapping[str, tuple[str, ...]] = {}
        self.overlaid_slugs: frozenset[str] = frozenset()
        self.unknown_hidden: tuple[str, ...] = ()
        self.sandbox_enabled = False
        self.is_built = False

    def build(self, conf_file: Path) -> None:
        """Fill the maps. Raises ``SettingsError`` with all errors that do not follow from others."""
        overlay = self._conf.paths.catalog_overlay
        if overlay and not self._sources.is_folder(overlay):
            raise SettingsError(conf_file, "paths.catalog_overlay", f"{overlay}: no such folder")
        errors = ErrorList()
        families = self._read_tables("families.toml", FAMILIES_FILE, errors)
        providers = self._read_tables("providers.toml", PROVIDERS_FILE, errors)
        models = self._read_models(errors)
        errors.raise_found()
        self._make_families(families, errors)
        errors.raise_found()
        self._make_providers(providers, errors)
        errors.raise_found()
        self.sandbox_enabled = self._is_sandbox_enabled(conf_file)
        self._make_models(models, errors)
        errors.raise_found()
        self.is_built = True

    def _read_tables[T](self, name: str, schema: TypeAdapter[dict[str, T]], errors: ErrorList) -> _Placed[T]:
        """Return the tables of one file of the catalog, those of the overlay instead of its own."""
        file = self._conf.paths.catalog / name
        overlay = self._overlay_file(name)
        tables = self._read(schema, file, errors)
        return tables | self._read(schema, overlay, errors) if overlay else tables

    def _overlay_file(self, name: str) -> Path | None:
        """Return the path of one file of the overlay, None where the overlay does not have it."""
        folder = self._conf.paths.catalog_overlay
        return folder / name if folder and self._sources.exists(folder / name) else None

    def _read[T](self, schema: TypeAdapter[dict[str, T]], file: Path, errors: ErrorList) -> _Placed[T]:
        with errors.collect():
            try:
                tables = _parse(schema, file, self._sources.read(file))
            except SettingsError:
                return self._validate(schema, file, self._sources.read_toml(file))
            return {name: (file, table) for name, table in tables.items()}
        return {}

    def _validate[T](
        self, schema: TypeAdapter[dict[str, T]], file: Path, tables: dict[str, Any]
    ) -> _Placed[T]:
        try:
            return {name: (file, table) for name, table in validate(schema, file, tables).items()}
        except SettingsError as error:
            text = self._sources.read_text(file)
            raise join_errors([_add_line(one, text) for one in error.all]) from None

    def _make_providers(self, tables: _Placed[ProviderTable], errors: ErrorList) -> None:
        for name, (file, table) in tables.items():
            with errors.collect():
                self.providers[name] = self._providers.make(name, table, file)
                self.provider_files[name] = file

    def _make_families(self, tables: _Placed[FamilyTable], errors: ErrorList) -> None:
        for name, (file, table) in tables.items():
            with errors.collect():
                self.families[name] = _make_family(name, table, file)

    def _is_sandbox_enabled(self, conf_file: Path) -> bool:
        enabled = self._conf.sandbox.enabled
        has_builtin = any(provider.builtin for provider in self.providers.values())
        if enabled is True and not has_builtin:
            raise SettingsError(conf_file, "sandbox.enabled", "providers.toml names no builtin provider")
        no_key = not any(provider.platform_keys for provider in self.providers.values())
        return enabled is True or (enabled == "auto" and has_builtin and no_key)

    def _read_models(self, errors: ErrorList) -> _Placed[ModelTable]:
        """Return the tables of models. Note which of them the overlay has, or hides."""
        tables = self._read(MODELS_FILE, self._conf.paths.catalog / "models.toml", errors)
        if overlay := self._overlay_file("models.toml"):
            with errors.collect():
                self._add_overlaid_models(tables, overlay)
        return tables

    def _add_overlaid_models(self, tables: _Placed[ModelTable], overlay: Path) -> None:
        added = self._sources.read_toml(overlay)
        hidden = {slug for slug, table in added.items() if table == _HIDDEN}
        self.overlaid_slugs = frozenset(added)
        self.unknown_hidden = tuple(sorted(hidden - tables.keys()))
        shown = {slug: table for slug, table in added.items() if slug not in hidden}
        tables |= self._validate(MODELS_FILE, overlay, shown)
        for slug in hidden & tables.keys():
            file, table = tables[slug]
            tables[slug] = file, table.model_copy(update=_HIDDEN)

    def _make_models(self, tables: _Placed[ModelTable], errors: ErrorList) -> None:
        slugs_by_folded: dict[str, str] = {}
        self._quotas = _find_quotas(table for _, table in tables.values())
        self._aliases = choose_aliases(tables, self._overlay_file("models.toml"), errors)
        for slug, (file, table) in tables.items():
            with errors.collect():
                if (other := slugs_by_folded.setdefault(fold_slug(slug), slug)) != slug:
                    raise SettingsError(file, join_key_path(slug), f'differs from "{other}" in case only')
                self.models[slug] = self._make_model(slug, table, file)

    def _make_model(self, slug: str, table: ModelTable, file: Path) -> Model:
        markup_percent = self._conf.billing.markup_percent
        wholesale = make_prices(table)
        provider = self._find_provider(table, file, slug)
        family = self._find_family(table.family, file, slug)
        model = Model(
            slug=slug,
            provider=provider,
            upstream_model_id=table.upstream_model_id,
            family=family,
            wholesale=wholesale,
            retail=compute_retail_prices(wholesale, markup_percent),
            max_completion_tokens=table.most_completion_tokens,
            byok_only=table.byok_only,
            active=table.active and (self.sandbox_enabled or not provider.builtin),
            context_window=table.context_window,
            max_searches=table.max_searches,
            hosted_tools=frozenset(table.hosted_tools),
            cost=table.cost,
            markup_percent=markup_percent,
            lacks=frozenset(table.lacks),
            timed=make_timed_prices(table, markup_percent),
            order=table.order,
            weight=table.weight,
            has_siblings=bool(table.deployments),
            quota=self._quotas.get(_place_of(table)),
            aliases=self._aliases[slug],
            prefers_responses=find_prefers_responses(table, provider, family, file, slug),
            serves=table.serves,
        )
        deployments = [self._make_deployment(model, table, at, file) for at in range(len(table.deployments))]
        model = replace(model, deployments=tuple([one for one in deployments if one is not None]))
        if model.serves == "embeddings":
            check_embeddings(model, file)
        return model

    def _make_deployment(self, model: Model, table: ModelTable, at: int, file: Path) -> Model | None:
        """Return a further place of ``model``, None for a sandbox that does not run."""
        deployment, path = table.deployments[at], (model.slug, "deployments", at)
        provider = self._find_provider(deployment, file, *path)
        if provider.builtin and not self.sandbox_enabled:
            return None
        family = self._find_family(deployment.family or table.family, file, *path)
        changes: dict[str, Any] = {}
        if deployment.has_own_prices:
            wholesale = make_prices(deployment, table.stated)
            changes |= {"wholesale": wholesale, "timed": reprice(model.timed, wholesale)}
        return replace(
            model,
            provider=provider,
            upstream_model_id=deployment.upstream_model_id,
            family=family,
            dialect="",
            prefers_responses=find_prefers_responses(deployment, provider, family, file, *path),
            max_completion_tokens=deployment.max_completion_tokens or model.max_completion_tokens,
            context_window=deployment.context_window or model.context_window,
            weight=deployment.weight,
            quota=self._quotas.get(_place_of(deployment)),
            **changes,
        )

    def _find_provider(self, table: PlaceTable | DeploymentTable, file: Path, *path: str | int) -> Provider:
        """Return the provider of a place. Raises ``SettingsError``, also for an id that its URL can't have."""
        provider = self.providers[check_known(table.provider, self.providers, file, *path, "provider")]
        check = _PATHS.get(provider.dialect) or ("{model}" in provider.chat_path and model_path)
        if check:
            try:
                check(table.upstream_model_id)
            except ValueError as error:
                raise SettingsError(file, join_key_path(*path, "upstream_model_id"), str(error)) from None
        return provider

    def _find_family(self, name: str, file: Path, *path: str | int) -> Family:
        return self.families[check_known(name, self.families, file, *path, "family")]


def _place_of(table: PlaceTable | DeploymentTable) -> _Place:
    return table.provider, table.upstream_model_id


def _find_quotas(models: Iterable[ModelTable]) -> Mapping[_Place, PlaceQuota]:
    """Return the quota of each place that has one, whichever models are there: the least of what is written."""
    limits: defaultdict[_Place, list[tuple[int | None, int | None, int | None]]] = defaultdict(list)
    for model in models:
        tables: tuple[ModelTable | DeploymentTable, ...] = (model, *model.deployments)
        for table in tables:
            limits[_place_of(table)].append((table.max_in_flight, table.rpm, table.tpm))
    quotas = {place: make_quota(stated) for place, stated in limits.items()}
    return {place: quota for place, quota in quotas.items() if quota is not None}


@lru_cache(maxsize=8)
def _parse[T](schema: TypeAdapter[dict[str, T]], file: Path, content: bytes) -> dict[str, T]:
    """Return the tables of a file. Most reloads find the catalog unchanged, and it takes long to read.

    Raises ``SettingsError``, without the numbers of lines.
    """
    return validate(schema, file, parse_toml(content, file))


def _add_line(error: SettingsError, text: str) -> SettingsError:
    """Return an error of a file that says in which line of its text it is."""
    line = find_key_line(text, error.key) if error.key else None
    return SettingsError(error.file, error.key, f"{error.reason} (at line {line})") if line else error


def _make_family(name: str, table: FamilyTable, file: Path) -> Family:
    fields = {key: getattr(table, key) for key in type(table).model_fields}
    fields["responses_rules"] = _frozen(fields.pop("responses").stated)
    fields["estimator"] = Estimator(**table.estimator.model_dump())
    family = Family(name, **_frozen(fields))
    try:
        check_family(family)
        check_family(family.over_responses)
    except ValueError as error:
        raise SettingsError(file, join_key_path(name), str(error)) from None
    return family


def _frozen(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: MappingProxyType(value) if isinstance(value, dict) else value for key, value in fields.items()
    }
