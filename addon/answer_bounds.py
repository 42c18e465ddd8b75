"""What no provider's answer may exceed, whole or streamed. Pure."""

from collections.abc import Mapping

from addon.errors import ErrorAnswer, upstream_garbage

MAX_CHOICES = 1_024
"""Eight times what any vendor makes for one call: each choice of a stream costs memory until its end."""

TOO_MANY_CHOICES = upstream_garbage(f"it has more than {MAX_CHOICES} choices.")
_LISTS = ("choices", "candidates")


class TooManyChoicesError(ValueError):
    """A stream began more choices than ``MAX_CHOICES``."""


def exceeded_bound(payload: Mapping[str, object]) -> ErrorAnswer | None:
    """Return the failure of an answer, or of an event, that lists too many choices."""
    for name in _LISTS:
        listed = payload.get(name)
        if isinstance(listed, list) and len(listed) > MAX_CHOICES:
            return TOO_MANY_CHOICES
    return None


def check_choices(begun: int) -> None:
    """Raise ``TooManyChoicesError`` where no further choice may begin."""
    if begun >= MAX_CHOICES:
        raise TooManyChoicesError
