"""The aliases of one workspace: the models that names of clients stand for. Pure.

A name may end in ``*``. Of several that match, the longest decides, so their order in the file does not matter.
Source: docs/routing.md, "Aliases".
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from policies.allowed_models import fold_slug


class Alias(NamedTuple):
    """A name, or the beginning of names followed by ``*``, and the slug that it stands for."""

    name: str
    model: str

    @property
    def decided_by(self) -> str:
        """The name of this rule in a ``Route``."""
        return f"alias {self.name}"


@dataclass(frozen=True, slots=True)
class Aliases:
    """All aliases of a workspace, no two of them with one name."""

    entries: tuple[Alias, ...] = ()
    _places: dict[str, int] = field(init=False, repr=False, compare=False)
    _prefixes: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        places = {fold_slug(one.name): place for place, one in enumerate(self.entries)}
        prefixes = sorted((name[:-1] for name in places if name.endswith("*")), key=len, reverse=True)
        object.__setattr__(self, "_places", places)
        object.__setattr__(self, "_prefixes", tuple(prefixes))

    def __bool__(self) -> bool:
        return bool(self.entries)

    def __iter__(self) -> Iterator[Alias]:
        return iter(self.entries)

    def find(self, name: str) -> int | None:
        """Return the place in ``entries`` of the alias for a name that a client gave, None where there is none."""
        folded = fold_slug(name)
        place = None if folded.endswith("*") else self._places.get(folded)
        if place is None and folded.startswith(self._prefixes):
            longest = next(one for one in self._prefixes if folded.startswith(one))
            place = self._places[f"{longest}*"]
        return place
