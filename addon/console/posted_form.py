"""The fields of a form that a browser posts, or a program as JSON."""

import json
from collections.abc import Mapping
from typing import Final

from tornado.httputil import HTTPServerRequest

from addon.console.query import ParameterError
from addon.settings.errors import suggest_name

FORM_TOKEN: Final = "_xsrf"  # noqa: S105  (a name)
"""The field of a form that has the token of its session."""


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
