"""The schema of an embeddings request, and the messages about invalid fields. Pure.

Source: OpenAI, API reference, "Create embeddings"; docs/embeddings.md.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Required, TypedDict

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, with_config
from pydantic_core import PydanticCustomError

from addon.apis.chat.schema import check_metadata
from addon.apis.validation import check

_INPUT: Final = (
    "Input should be a string, an array of strings, an array of tokens, or an array of such arrays"
)


def _check_input(value: Any) -> Any:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, list) and value and (_are_texts(value) or _are_tokens(value) or _are_lists(value)):
        return value
    raise PydanticCustomError("input", f"{_INPUT}, and none of them empty")


def _are_texts(value: list[Any]) -> bool:
    return all(isinstance(one, str) and one for one in value)


def _are_tokens(value: list[Any]) -> bool:
    return all(type(one) is int and one >= 0 for one in value)


def _are_lists(value: list[Any]) -> bool:
    return all(type(one) is list and one and _are_tokens(one) for one in value)


@with_config(ConfigDict(strict=True))
class _Body(TypedDict, total=False):
    model: Required[Annotated[str, Field(min_length=1)]]
    input: Required[Annotated[Any, AfterValidator(_check_input)]]
    encoding_format: Literal["float", "base64"]
    dimensions: Annotated[int, Field(gt=0)]
    user: str
    metadata: Annotated[Any, AfterValidator(check_metadata)]


_validate = TypeAdapter(_Body).validator.validate_python


def validate(given: Mapping[str, Any]) -> None:
    """Raise Refusal ``validation_failed``, naming the invalid fields, unless ``given``, which has no null, is valid."""
    check(_validate, given)
