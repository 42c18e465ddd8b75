"""Parts of pages about changes: links to forms, and the lines of a difference."""

from collections.abc import Callable, Sequence
from typing import Any

from addon.console.changes.forms import FORMS
from addon.console.frame import Frame
from addon.console.parts.part import Part
from addon.edits.diff import DiffLine


class ChangeLinks(Part):
    """Links to all forms of one workspace, or of one part of it such as a key.

    While nothing may be changed, it is the reason instead.

    ``names`` are those of the forms: ``ChangeLinks(workspace="acme", key="ci")``. Without names, the forms of no
    workspace.
    """

    def render(self, **names: str) -> str:
        forms = [form for form in FORMS.values() if tuple(form.names) == tuple(names)]
        obstacle = self.frame.edit_obstacle
        return self.show(
            "change_links", obstacle=obstacle, forms=forms, names=names.values(), current=self.path
        )


class ChangesOff(Part):
    """The reason why nothing may be changed. Empty while changes are allowed."""

    def render(self) -> str:
        obstacle = self.frame.edit_obstacle
        return (
            self.show("change_links", obstacle=obstacle, forms=(), names=(), current=self.path)
            if obstacle
            else ""
        )


class Diff(Part):
    """The lines of a difference. Signs and colours have words for screen readers."""

    def render(self, lines: Sequence[DiffLine], label: str = "The lines that change") -> str:
        return self.show("diff", lines=lines, label=label)


def make_edit_link(frame: Frame) -> Callable[..., str | None]:
    """Return a function that returns the URL of a form: ``edit_link("keys set", "acme", "ci")``.

    It returns None while nothing may be changed.
    """
    forms = {form.action: form for form in FORMS.values()}

    def edit_link(action: str, *names: Any) -> str | None:
        if frame.edit_obstacle is not None:
            return None
        return forms[action].url(*map(str, names))

    return edit_link
