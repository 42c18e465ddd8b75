"""``/models``: the catalog with its prices."""

from addon.console.view import Reading, View
from addon.text.table import Table

COLUMNS = ("model_slug", "provider", "family", "active")


def load_models(reading: Reading) -> View:
    """Return the models of the catalog, sorted by slug."""
    rows = [
        (model.slug, model.provider.name, model.family.name, model.active)
        for model in sorted(reading.settings.models.values(), key=lambda model: model.slug)
    ]
    return View({"models": Table(COLUMNS, rows)})
