"""Validation of operators' tables: the base class of all schemas, and the function that checks a file."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from addon.settings.errors import Entry, SettingsError, join_key_path, raise_first, shorten_name, suggest_name
from addon.settings.file_content import make_absolute
from addon.settings.validation_errors import ErrorWriter


class Table(BaseModel):
    """A TOML table. It accepts no unknown keys, converts no values and can't be changed."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _note_schema(cls, table: Any, info: ValidationInfo) -> Any:
        # The error of an unknown key suggests keys of this class, but pydantic's error does not name the class.
        if info.context:
            info.context["schemas"][id(table)] = cls
        return table


def table_error(reason: str, *path: str | int) -> PydanticCustomError:
    """Return the error of a key; ``path`` begins at the table that is being checked."""
    # The reason goes through a placeholder because a key may hold braces itself.
    return PydanticCustomError("fault", "{reason}", {"reason": reason, "path": path})


def validate[T](schema: type[T] | TypeAdapter[T], file: Path, table: dict[str, Any]) -> T:
    """Return the table as the schema's type, paths relative to ``file``. Raises ``SettingsError`` with all errors."""
    adapter = schema if isinstance(schema, TypeAdapter) else TypeAdapter(schema)
    schemas: dict[int, type[BaseModel]] = {}
    context = {"folder": make_absolute(file).parent, "schemas": schemas}
    try:
        return adapter.validate_python(table, context=context)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        schemas[id(table)] = schema
    raise_first(SettingsError(file, *error) for error in ErrorWriter(table, schemas).describe(details))
    raise AssertionError("a failed validation has an error")


def check_known(
    name: str, names: Collection[str], file: Path, *path: str | int | Entry, kind: str = ""
) -> str:
    """Return ``name`` if it is one of ``names``. Raises ``SettingsError``."""
    if name not in names:
        reason = f'unknown {kind or path[-1]} "{shorten_name(name)}"{suggest_name(name, names)}'
        raise SettingsError(file, join_key_path(*path), reason)
    return name
