"""The aliases of the catalog's models: a name may be that of one model only.

The names in the overlay are the operator's, so an alias of the catalog that is one of them is left out: an upgrade that
adds an alias must not keep an overlay from loading. Source: docs/catalog.md, "Aliases".
"""

from collections.abc import Mapping
from pathlib import Path

from addon.settings.catalog_schema import ModelTable
from addon.settings.errors import ErrorList, SettingsError, join_key_path
from policies.allowed_models import fold_slug


def choose_aliases(
    tables: Mapping[str, tuple[Path, ModelTable]], overlay: Path | None, errors: ErrorList
) -> Mapping[str, tuple[str, ...]]:
    """Return the aliases of each model by its slug. Add an error for each that another model has as slug or alias.

    ``tables`` have the file that each is in. ``overlay`` is that of the overlay, if there is one.
    """
    slugs = {fold_slug(slug): slug for slug in tables}
    owners: dict[str, str] = {}
    chosen: dict[str, tuple[str, ...]] = {}
    # The overlay's come first, because they stand.
    for slug, (file, table) in sorted(tables.items(), key=lambda one: one[1][0] != overlay):
        kept = []
        for place, alias in enumerate(table.aliases):
            folded = fold_slug(alias)
            other = slugs.get(folded) or owners.setdefault(folded, slug)
            if other == slug:
                kept.append(alias)
            elif file == overlay or tables[other][0] != overlay:
                is_slug = folded in slugs
                reason = "is the slug of another model" if is_slug else f'is an alias of "{other}" already'
                errors.add(SettingsError(file, join_key_path(slug, "aliases", place), f'"{alias}" {reason}'))
        chosen[slug] = tuple(kept)
    return chosen
