"""The parts that choose what a page shows: its time, its filters, and the pages before and after it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from addon.console.cells import heading
from addon.console.parts.part import Part
from addon.console.query import FILTERS
from addon.console.time_range import LABELS, NAMES, TimeRange
from addon.console.time_range import PARAMETERS as TIMES
from addon.console.urls import find_kept

_MINUTES: Final = "%Y-%m-%dT%H:%M"


class TimePicker(Part):
    """Links to the usual times, and a form for any other."""

    def render(self, time: TimeRange) -> str:
        links = [
            (LABELS[name], self.here(range=name, from_=None, to=None), name == time.name)
            for name in NAMES
            if name != "custom"
        ]
        # A form has minutes. The last one begins before the end of the time.
        end = time.end if time.name == "custom" else time.end + timedelta(minutes=1)
        return self.show(
            "time_picker",
            time=time,
            links=links,
            kept=find_kept(self.query, TIMES),
            begin=time.begin.strftime(_MINUTES),
            end=end.strftime(_MINUTES),
            label=LABELS[time.name],
        )


class FilterChips(Part):
    """The filters of this page's URL, each with a link that removes it."""

    def render(self, names: Sequence[str] = FILTERS) -> str:
        given = self.query.given()
        chips = [(heading(name), given[name], self.here(**{name: None})) for name in names if name in given]
        return self.show("filter_chips", chips=chips, clear=self.here(**dict.fromkeys(names)))


class FilterForm(Part):
    """Fields for filters: a list for each of ``choices``, a text for the others. The rest of the URL stays as it is."""

    def render(self, names: Sequence[str], choices: Mapping[str, Iterable[str]] | None = None) -> str:
        given = self.query.given()
        return self.show(
            "filter_form",
            kept=find_kept(self.query, names),
            fields=[
                (name, heading(name), given.get(name, ""), _with_given(choices, name, given))
                for name in names
            ],
        )


def _with_given(
    choices: Mapping[str, Iterable[str]] | None, name: str, given: Mapping[str, str]
) -> Sequence[str] | None:
    """Return the choices of a filter with the one that the URL has, None for a text."""
    if choices is None or name not in choices:
        return None
    listed = list(choices[name])
    return listed if given.get(name, "") in ("", *listed) else [given[name], *listed]


class Pager(Part):
    """Links to the pages before and after this one."""

    def render(
        self,
        newer: str | None = None,
        older: str | None = None,
        note: str = "",
        newer_text: str = "Newer",
        older_text: str = "Older",
    ) -> str:
        words = {"newer_text": newer_text, "older_text": older_text}
        return self.show("pager", newer=newer, older=older, note=note, **words)
