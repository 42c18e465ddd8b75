"""Validation of operators' tables: the base class of all schemas, and the errors that it reports."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from addon.settings.errors import SettingsError, join_key_path, suggest_name
from addon.settings.file_content import make_absolute

_TOML_WORDS = {
    "missing": "is required",
    "model_type": "must be a table",
    "dict_type": "must be a table",
    "tuple_type": "must be an array",
    "frozen_set_type": "must be an array of strings",
}


class Table(BaseModel):
    """A TOML table. It accepts no unknown keys, converts no values and can't be changed."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, table: Any) -> Any:
        for key in table if isinstance(table, Mapping) else ():
            if key not in cls.model_fields:
                raise table_error(f"unknown key{suggest_name(key, cls.model_fields)}", key)
        return table


def table_error(reason: str, *path: str | int) -> PydanticCustomError:
    """Return the error of a key; ``path`` begins at the table that is being checked."""
    # The reason goes through a placeholder because a key may hold braces itself.
    return PydanticCustomError("fault", "{reason}", {"reason": reason, "path": path})


def validate[T](schema: type[T] | TypeAdapter[T], file: Path, table: dict[str, Any]) -> T:
    """Return the table as the schema's type, paths relative to ``file``. Raises ``SettingsError``."""
    adapter = schema if isinstance(schema, TypeAdapter) else TypeAdapter(schema)
    try:
        return adapter.validate_python(table, context={"folder": make_absolute(file).parent})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
    context = first.get("ctx", {})
    where = [part for part in first["loc"] if part != "[key]"]
    where.extend(context.get("path", ()))
    raise SettingsError(file, join_key_path(*where), _reason(first["type"], first["msg"], context))


def _reason(kind: str, message: str, context: Mapping[str, Any]) -> str:
    if kind == "value_error":
        return str(context["error"])
    return _TOML_WORDS.get(kind) or message.replace("Input should be", "must be")


def check_known(name: str, names: Collection[str], file: Path, *path: str | int, kind: str = "") -> str:
    """Return ``name`` if it is one of ``names``. Raises ``SettingsError``."""
    if name not in names:
        reason = f'unknown {kind or path[-1]} "{name}"{suggest_name(name, names)}'
        raise SettingsError(file, join_key_path(*path), reason)
    return name
