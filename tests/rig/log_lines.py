"""Log lines that a test reads back."""

import io
import json
from typing import Any


class Lines(io.StringIO):
    """A stream that reads back as JSON lines."""

    @property
    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]

    @property
    def one(self) -> dict[str, Any]:
        (line,) = self.all
        return line
