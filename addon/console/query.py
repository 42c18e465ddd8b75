"""``Query``: the parameters of a URL, which are checked."""

from collections.abc import Mapping, Sequence
from typing import Final

from addon.settings.errors import suggest_name

MAX_CHARS: Final = 256
"""The longest value of a parameter."""

NAME_FILTERS: Final = ("workspace", "key", "model", "provider")
"""The parameters for a name that calls have."""

FILTERS: Final = (*NAME_FILTERS, "status", "mode")
"""The filters that links carry from one view to another, where the other view has them."""

CALL_FILTERS: Final = (*FILTERS, "api", "deployment", "end_user", "error_code")
"""The filters of the list of calls."""


class ParameterError(Exception):
    """A parameter of the URL is wrong. ``str`` is one line that names it."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")


class Query:
    """The parameters of one URL. Each has one value, and an empty value is as none."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = {name: value for name, value in values.items() if value}

    @classmethod
    def parse(cls, arguments: Mapping[str, Sequence[str]], known: frozenset[str]) -> "Query":
        """Return the parameters, of which only those in ``known`` may be there. Raises ParameterError."""
        for name, values in arguments.items():
            if name not in known:
                raise ParameterError(name, f"there is no such parameter here{suggest_name(name, known)}")
            if len(values) > 1:
                raise ParameterError(name, "is given more than once")
            if len(values[0]) > MAX_CHARS:
                raise ParameterError(name, f"is longer than {MAX_CHARS} characters")
        return cls({name: values[0] for name, values in arguments.items()})

    def text(self, name: str) -> str | None:
        """Return the value, None when it is not given."""
        return self._values.get(name)

    def choice[T: str](self, name: str, choices: Sequence[T], default: T) -> T:
        """Return one of ``choices``. Raises ParameterError."""
        value = self._values.get(name)
        if value is None:
            return default
        for one in choices:
            if one == value:
                return one
        raise ParameterError(name, f"must be one of {', '.join(choices)}")

    def given(self) -> Mapping[str, str]:
        """Return all parameters that are given."""
        return dict(self._values)
