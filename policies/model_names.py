"""The names of the models of one catalog: slugs and aliases. Pure.

Source: docs/routing.md, "Aliases".
"""

from collections.abc import Mapping

from policies.allowed_models import fold_slug
from policies.model import Model


class ModelNames:
    """Finds the models of one catalog by the names that clients give. Each name is that of one model."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self.models = models
        aliased = {alias: model for model in models.values() for alias in model.aliases}
        self._exact: dict[str, Model] = {**aliased, **models}
        self._folded = {fold_slug(name): model for name, model in self._exact.items()}

    def find_exact(self, name: str) -> Model | None:
        """Return the model whose slug or alias is ``name`` to the letter."""
        return self._exact.get(name)

    def find(self, name: str) -> Model | None:
        """Return the model of a slug or an alias. ``name`` may have another case, or blanks around it."""
        return self._exact.get(name) or self._folded.get(fold_slug(name))


def is_slug_of(model: Model, name: str) -> bool:
    """Return whether ``name`` is the slug of a model, in any case, and not an alias."""
    return name == model.slug or fold_slug(name) == fold_slug(model.slug)
