"""What every table of an operator's files has in common: an unknown key is refused, with the nearest that is known."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from addon.settings.files import nearest


def fault(reason: str, *path: str | int) -> PydanticCustomError:
    """A fault of a key below the table that is being checked."""
    # The reason goes through a placeholder because a key may hold braces itself.
    return PydanticCustomError("fault", "{reason}", {"reason": reason, "path": path})


class Table(BaseModel):
    """A TOML table: no unknown keys, no conversions, no changes."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _knows_its_keys(cls, table: Any) -> Any:
        for key in table if isinstance(table, Mapping) else ():
            if key not in cls.model_fields:
                raise fault(f"unknown key{nearest(key, cls.model_fields)}", key)
        return table
