"""What the places of a model need of the dialects of their providers. Source: docs/catalog.md; docs/embeddings.md."""

from pathlib import Path

from addon.settings.catalog_schema import DeploymentTable, PlaceTable
from addon.settings.errors import SettingsError, join_key_path
from policies.family import Family
from policies.model import Model
from policies.provider import Provider


def find_prefers_responses(
    table: PlaceTable | DeploymentTable, provider: Provider, family: Family, file: Path, *path: str | int
) -> bool:
    """Return whether calls of a place may go to the Responses API of its provider.

    Raises ``SettingsError`` where the place needs it and its provider has none.
    """
    if (table.dialect or family.responses_only) and provider.dialect != "openai":
        key = "dialect" if table.dialect else "family"
        reason = (
            "needs the dialect responses, which only a provider of the dialect openai has;"
            f" {provider.name} speaks {provider.dialect}"
        )
        raise SettingsError(file, join_key_path(*path, key), reason)
    return table.dialect is not None and not family.responses_only


def check_embeddings(model: Model, file: Path) -> None:
    """Raise ``SettingsError`` for a place whose API is none that makes embeddings."""
    for place in model.places:
        dialect = place.provider.dialect
        if dialect != "openai":
            reason = f"{place.provider.name} has the dialect {dialect}, and only openai makes embeddings"
            raise SettingsError(file, join_key_path(model.slug, "serves"), reason)
