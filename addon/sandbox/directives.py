"""The sandbox's directives: what ``[[name]]`` or ``[[name:value]]`` in the last user message asks of it. Pure.

Text in double brackets that names no directive is left in the message as it stands.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

NUMBERS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"status": (400, 599), "delay": (0, 60_000), "pace": (0, 5_000), "tokens": (0, 4_096)}
)
"""Directives that take a whole number, each with the lowest and the highest one."""

FLAGS = frozenset({"drop", "silent", "error-in-stream", "error-200", "no-done", "no-usage"})
NAMES = frozenset({*NUMBERS, *FLAGS, "tool"})
STREAM_ONLY = frozenset({"pace", "error-in-stream", "no-done"})

_DIRECTIVE = re.compile(r"\[\[([a-z][a-z0-9-]{0,20})(?::([^\[\]\n]{1,80}))?\]\] ?")


class DirectiveError(ValueError):
    """A directive whose value it can't have; the message says which and what it takes."""


@dataclass(frozen=True, slots=True)
class Directives:
    """What was asked for. ``tools`` are names of tools to call, in order; "" stands for the first tool given."""

    numbers: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    flags: frozenset[str] = frozenset()
    tools: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Every directive but ``tool``."""
        return self.flags | self.numbers.keys()


def parse_directives(text: str) -> tuple[Directives, str]:
    """Return the directives of ``text``, and ``text`` without them. Raises ``DirectiveError``."""
    numbers: dict[str, int] = {}
    flags: set[str] = set()
    tools: list[str] = []
    for name, value in _DIRECTIVE.findall(text):
        if name in NUMBERS:
            numbers[name] = _number(name, value)
        elif name == "tool":
            tools.append(value)
        elif name in FLAGS and value:
            raise DirectiveError(f"[[{name}]] takes no value.")
        elif name in FLAGS:
            flags.add(name)
    rest = _DIRECTIVE.sub(lambda found: "" if found[1] in NAMES else found[0], text)
    return Directives(MappingProxyType(numbers), frozenset(flags), tuple(tools)), rest.strip()


def _number(name: str, value: str) -> int:
    lowest, highest = NUMBERS[name]
    if not re.fullmatch(r"[0-9]{1,9}", value) or not lowest <= int(value) <= highest:
        raise DirectiveError(f"[[{name}:N]] takes a whole number from {lowest} to {highest}.")
    return int(value)
