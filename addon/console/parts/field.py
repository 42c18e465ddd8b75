"""The fields of forms."""

from collections.abc import Iterable, Mapping

from addon.console.parts.part import Part
from addon.console.posted_form import FORM_TOKEN


class Field(Part):
    """A field of a form, with its label, a hint, and its error below it.

    ``kind`` is a type of ``<input>``, or ``textarea`` or ``select``. ``options`` are texts, or pairs of a value and its
    text.
    """

    def render(
        self,
        name: str,
        label: str,
        value: object = "",
        *,
        kind: str = "text",
        hint: str = "",
        error: str = "",
        options: Iterable[str | tuple[str, str]] = (),
        is_required: bool = False,
        rows: int = 12,
        attributes: Mapping[str, str] | None = None,
    ) -> str:
        pairs = [(one, one or "Any") if isinstance(one, str) else one for one in options]
        return self.show(
            "field",
            name=name,
            label=label,
            value="" if value is None else value,
            kind=kind,
            hint=hint,
            error=error,
            options=pairs,
            is_required=is_required,
            rows=rows,
            attributes=attributes or {},
        )


class FormToken(Part):
    """The hidden field with the token that a form must send back."""

    def render(self) -> str:
        return self.show("form_token", name=FORM_TOKEN, token=self.frame.form_token)
