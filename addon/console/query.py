"""``Query``: the parameters of a URL, which are checked."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from tornado.httputil import HTTPServerRequest

from addon.settings.errors import suggest_name

MAX_CHARS: Final = 256
"""The longest value of a parameter."""


FORM_TOKEN: Final = "_xsrf"  # noqa: S105  (a name)
"""The field of a form that has the token of its session. tornado's ``xsrf_form_html`` has this name, too."""


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


def parse_form(request: HTTPServerRequest, known: frozenset[str]) -> Mapping[str, str]:
    """Return the fields of a posted form, or the texts of a JSON object. Raises ParameterError.

    A value of JSON that is no text is kept as JSON.
    """
    if request.headers.get("Content-Type", "").partition(";")[0].strip().lower() == "application/json":
        given = _parse_json(request.body)
    else:
        # Browsers send the line ends of a textarea as CR LF.
        given = {
            name: values[-1].decode("utf-8", "replace").replace("\r\n", "\n")
            for name, values in request.body_arguments.items()
            if name != FORM_TOKEN
        }
    for name in given:
        if name not in known:
            raise ParameterError(name, f"there is no such field here{suggest_name(name, known)}")
    return given


def _parse_json(body: bytes) -> dict[str, str]:
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise ParameterError("body", "is not JSON") from None
    if not isinstance(given, dict):
        raise ParameterError("body", "must be a JSON object")
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in given.items()
        if value is not None
    }
