"""``Field``: a field of a form, and what was typed into it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from addon.edits.toml_lines import Changes, Value, format_value
from addon.edits.typed_settings import Setting
from addon.text.masking import mask_credentials

type Kind = Literal["text", "textarea", "select", "password", "hidden"]

MAX_CHARS: Final = 4000
"""The longest text of a field, unless it says otherwise."""
MAX_LIST_CHARS: Final = 100_000
"""The longest text of a list of names. A command takes no longer one."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form. ``parse`` returns the value of a text, or raises ``ValueError`` with what is wrong.

    An empty text is the value None, and is not parsed. A text of blanks is refused. A ``password`` is a secret: its
    value is sealed, and it is never shown again. Another text that was refused is shown as ``mask`` returns it. The
    text of a ``hidden`` field comes back as it was.
    """

    name: str
    label: str
    parse: Callable[[str], Any] = str
    hint: str = ""
    kind: Kind = "text"
    options: Sequence[tuple[str, str]] = ()
    is_required: bool = False
    max_chars: int = MAX_CHARS
    rows: int = 12
    mask: Callable[[str], str] = mask_credentials


DIGEST: Final = Field("digest", "", kind="hidden")
"""The digest of the file that a form was opened with. See ``RequestedChange.require_same_file``."""


class FieldErrors(Exception):  # noqa: N818  (several errors, one a field)
    """The faults of a form, by the name of the field."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {error}" for name, error in errors.items()))
        self.errors = errors


class TypedSecretError(FieldErrors):
    """A secret was typed into a field that shows its text. ``masked`` are the texts of all fields without it."""

    def __init__(self, errors: Mapping[str, str], masked: Mapping[str, str]) -> None:
        super().__init__(errors)
        self.masked = masked


def refuse_secrets(fields: Iterable[Field], typed: Mapping[str, str], mask: Callable[[str], str]) -> None:
    """Raise TypedSecretError when a text has a secret that ``mask`` masks. A ``password`` may have one."""
    shown = {one.name: typed.get(one.name, "") for one in fields if one.kind != "password"}
    masked = {name: mask(text) for name, text in shown.items()}
    if errors := {
        name: _find_secret(text, masked[name]) for name, text in shown.items() if masked[name] != text
    }:
        raise TypedSecretError(errors, masked)


def _find_secret(text: str, masked: str) -> str:
    lines = zip(text.split("\n"), masked.split("\n"), strict=False)
    number = next((number for number, (line, other) in enumerate(lines, 1) if line != other), 1)
    where = f"line {number} has" if "\n" in text else "has"
    return f"{where} a secret of this gateway; nothing was written, and nothing is kept of it"


def parse_fields(
    fields: Iterable[Field], typed: Mapping[str, str], seal: Callable[[str], str]
) -> dict[str, Any]:
    """Return the value of each field; that of a ``password`` is what ``seal`` returns.

    Raises ``FieldErrors`` with all that is wrong.
    """
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for field in fields:
        try:
            value = _parse(field, typed.get(field.name, ""))
            is_secret = field.kind == "password" and value is not None
            values[field.name] = seal(value) if is_secret else value
        except ValueError as error:
            errors[field.name] = str(error)
    if errors:
        raise FieldErrors(errors)
    return values


def _parse(field: Field, text: str) -> Any:
    typed, text = text, text if field.kind in ("textarea", "password") else text.strip()
    if typed and not text:
        raise ValueError("has only blanks; leave it empty")
    if not text:
        if field.is_required:
            raise ValueError("is needed")
        return None
    if len(text) > field.max_chars:
        raise ValueError(f"is longer than {field.max_chars} characters")
    if field.options and text not in [value for value, _ in field.options]:
        raise ValueError(f"must be one of {', '.join(value for value, _ in field.options if value)}")
    return field.parse(text)


def make_fields(settings: Iterable[Setting], *, is_new: bool) -> tuple[Field, ...]:
    """Return fields for keys of a file, with the same texts as the options of commands."""
    return tuple(_make_field(one, is_new=is_new) for one in settings)


def _make_field(setting: Setting, *, is_new: bool) -> Field:
    hint = setting.hint or setting.help
    if setting.choices:
        options = [("", "the default" if is_new else "not set"), *((one, one) for one in setting.choices)]
        return Field(setting.key, setting.label, str, hint, "select", options)
    if setting.parse is None:
        flags = [("", "the default" if is_new else "not set"), ("true", "on"), ("false", "off")]
        return Field(setting.key, setting.label, lambda text: text == "true", hint, "select", flags)
    most = MAX_LIST_CHARS if setting.can_repeat else MAX_CHARS
    return Field(setting.key, setting.label, setting.parse, hint, max_chars=most)


def show_value(value: Value | None) -> str:
    """Return the text of a value of a file that its field parses to the same value."""
    if value is None:
        return ""
    if isinstance(value, bool | datetime):
        return format_value(value)
    if isinstance(value, str | int):
        return str(value)
    return ", ".join(map(str, value)) or "none"


def mask_refused(fields: Iterable[Field], typed: Mapping[str, str]) -> Mapping[str, str]:
    """Return texts that were refused as a page may show them again. A secret may be in any field by mistake."""
    return {
        field.name: text if field.kind == "hidden" else field.mask(text)
        for field in fields
        if field.kind != "password" and (text := typed.get(field.name, ""))
    }


def find_changes(
    fields: Iterable[Field], typed: Mapping[str, str], values: Mapping[str, Any], current: Mapping[str, str]
) -> Changes:
    """Return the new values of the fields whose text is not the current one. An empty text removes a key."""
    return {
        field.name: values[field.name]
        for field in fields
        if typed.get(field.name, "").strip() != current.get(field.name, "")
    }
