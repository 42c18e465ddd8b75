"""What the schemas of all APIs share: bounds, choices by shape, and the messages about invalid fields. Pure.

Pydantic only validates; the client's own values go upstream. No message repeats a value, because it may be a secret.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from pydantic import (
    Discriminator,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from policies.refusal import Refusal

MAX_EXPLAINED_FAILURES: Final = 20
"""The number of invalid fields that are listed with their errors. The others are listed by name only."""
# Validation stops here: the errors of ten million wrong elements would take gigabytes.
MAX_FOUND_FAILURES: Final = 1_000

# Pydantic's own messages for these name Python types.
_PLAIN_WORDS: Final = MappingProxyType(
    {
        "model_type": "Input should be an object",
        "dict_type": "Input should be an object",
        "list_type": "Input should be an array",
    }
)

type Location = tuple[int | str, ...]


class _TooManyFailuresError(Exception):
    """Ends the validation at once. Pydantic would catch a ValueError and go on."""


def _counted(value: Any, check: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Validate one element of an array, and count the errors of all of them in the list that is the context."""
    try:
        return check(value)
    except ValidationError as error:
        errors = cast(list[int], info.context)
        errors[0] += error.error_count()
        if errors[0] > MAX_FOUND_FAILURES:
            raise _TooManyFailuresError from None
        raise


Counted: Final = WrapValidator(_counted)
"""The mark of the elements of an array: their errors are counted, and bounded together."""


def shape(value: Any) -> str | None:
    """Return the tag of a text, an array or an object."""
    shapes = ((str, "<text>"), (list, "<array>"), (dict, "<object>"))
    return next((name for kind, name in shapes if isinstance(value, kind)), None)


def one_of(find_tag: Callable[[Any], str | None], description: str) -> Any:
    """Return the mark of a value with several forms. Their tags are in angle brackets, which no path shows."""
    return Discriminator(
        find_tag, custom_error_type="shape", custom_error_message=f"Input should be {description}"
    )


def check(
    validate: Callable[..., Any],
    body: Mapping[str, Any],
    locate: Callable[[Location], Location] | None = None,
) -> None:
    """Raise Refusal ``validation_failed``, naming the invalid fields, unless ``body`` is valid.

    ``validate`` is that of a validator of pydantic. ``locate`` returns the path in the request of a path in ``body``.
    """
    try:
        validate(body, context=[0])
    except _TooManyFailuresError:
        raise Refusal("validation_failed", f"More than {MAX_FOUND_FAILURES} fields are invalid.") from None
    except ValidationError as error:
        failures = error.errors(include_url=False, include_context=False, include_input=False)
        raise _validation_failed(
            (_path(locate(f["loc"]) if locate else f["loc"]), _PLAIN_WORDS.get(f["type"], f["msg"]))
            for f in failures
        ) from None


def _path(location: Location) -> str:
    return ".".join(str(part) for part in location if not str(part).startswith("<"))


def _validation_failed(found: Iterable[tuple[str, str]]) -> Refusal:
    failures = list(found)
    listed = [f"{path}: {words}" for path, words in failures[:MAX_EXPLAINED_FAILURES]]
    if others := [path for path, _ in failures[MAX_EXPLAINED_FAILURES:]]:
        listed.append(f"also {', '.join(others)}")
    paths = {path for path, _ in failures}
    return Refusal("validation_failed", "; ".join(listed), paths.pop() if len(paths) == 1 else None)
