"""``FoundEvents``: what a look for alerts has found."""

from dataclasses import dataclass, field

from addon.alerts.events import Event


@dataclass
class FoundEvents:
    """The events that a look found, and the marks to write with them. None removes a mark."""

    events: list[Event] = field(default_factory=list)
    marks: dict[str, str | None] = field(default_factory=dict)
