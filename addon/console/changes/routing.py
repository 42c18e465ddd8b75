"""The forms of routing rules, heuristics and aliases: add, change, move and remove one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_args

from addon.console.changes.field import DIGEST, MAX_LIST_CHARS, Field, FieldErrors, show_value
from addon.console.changes.file_change import FileChange
from addon.console.changes.form import Change, Form, RequestedChange
from addon.console.changes.workspaces import read_digest, read_for_form, suggest_models
from addon.edits.routing import (
    ALIASES,
    HEURISTICS,
    RULES,
    EntryKind,
    PlaceError,
    plan_entry_changes,
    plan_entry_move,
    plan_entry_removal,
    plan_new_entry,
    read_entry,
)
from addon.edits.typed_settings import parse_count, parse_text
from addon.edits.workspace_files import EditError, Plan, hash_content
from addon.settings.settings import Settings
from policies.routing_rules import HeuristicWhen

_WHEN_WORDS: Final = {
    "images": "has images",
    "tools": "has tools",
    "json": "asks for JSON",
    "prompt_tokens_above": "has more prompt tokens than the threshold",
}
_MODEL: Final = Field("model", "Model", parse_text, "The model that then serves the call.", is_required=True)


def parse_keywords(text: str) -> list[str]:
    """Return the keywords of a text, one a line. Raises ``ValueError``, also where there is none."""
    keywords = [parse_text(word) for line in text.split("\n") if (word := line.strip())]
    if not keywords:
        raise ValueError("is needed")
    return keywords


def _suggest(settings: Settings) -> Mapping[str, Sequence[str]]:
    return {"model": suggest_models(settings)}


def _find_place(asked: RequestedChange, kind: EntryKind) -> int:
    text = asked.names[kind.noun]
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise EditError(f"a {kind.noun} is named by its number in the list")
    return int(text)


def _read_entry(asked: RequestedChange, kind: EntryKind) -> Mapping[str, str]:
    read_for_form(asked)
    place = _find_place(asked, kind)
    read, entry = read_entry(asked.files.folder, asked.workspace, kind, place)
    shown = {name: _show(entry.get(name)) for name in kind.keys}
    return {**shown, "place": str(place), DIGEST.name: hash_content(read.content)}


def _show(value: Any) -> str:
    return "\n".join(value) if isinstance(value, list) else show_value(value)


def _plan_add(asked: RequestedChange, kind: EntryKind) -> Change:
    place = asked.values.get("place")
    return _change(
        asked, lambda: plan_new_entry(asked.files.folder, asked.workspace, kind, asked.values, place)
    )


def _plan_set(asked: RequestedChange, kind: EntryKind) -> Change:
    place, changes = _find_place(asked, kind), asked.find_changes(kind.keys)
    return _change(
        asked, lambda: plan_entry_changes(asked.files.folder, asked.workspace, kind, place, changes)
    )


def _plan_move(asked: RequestedChange, kind: EntryKind) -> Change:
    place, to = _find_place(asked, kind), asked.values["place"]
    return _change(asked, lambda: plan_entry_move(asked.files.folder, asked.workspace, kind, place, to))


def _plan_remove(asked: RequestedChange, kind: EntryKind) -> Change:
    place = _find_place(asked, kind)
    return _change(asked, lambda: plan_entry_removal(asked.files.folder, asked.workspace, kind, place))


def _change(asked: RequestedChange, plan: Callable[[], Plan]) -> Change:
    try:
        return FileChange(asked.require_same_file(plan()), None)
    except PlaceError as error:
        raise FieldErrors({"place": str(error)}) from None


def _place_field(*, is_required: bool) -> Field:
    hint = "Its number in the list: 1 is tried first."
    return Field(
        "place",
        "Place",
        parse_count,
        hint if is_required else f"{hint} If empty: the last.",
        is_required=is_required,
    )


def _make_forms(
    kind: EntryKind, fields: Sequence[Field], intro: str, *, is_ordered: bool = True
) -> tuple[Form, ...]:
    """Return the forms of a list. ``fields`` are those of an entry. ``is_ordered``: the place of an entry matters."""
    noun, array, one = kind.noun, kind.array, ("workspace", kind.noun)

    def make(
        verb: str, title: str, plan: Callable[[RequestedChange, EntryKind], Change], **rest: Any
    ) -> Form:
        return Form(f"{array} {verb}", title, plan=lambda asked: plan(asked, kind), suggest=_suggest, **rest)

    moved = (DIGEST, _place_field(is_required=True))
    current: dict[str, Any] = {"names": one, "current": lambda asked: _read_entry(asked, kind)}
    article = "an" if noun == "alias" else "a"
    return (
        make(
            "add",
            f"Add {article} {noun}",
            _plan_add,
            fields=(DIGEST, *fields, *([_place_field(is_required=False)] if is_ordered else [])),
            current=read_digest,
            intro=intro,
        ),
        make("set", f"Change the {noun}", _plan_set, fields=(DIGEST, *fields), **current),
        *([make("move", f"Move the {noun}", _plan_move, fields=moved, **current)] if is_ordered else []),
        make(
            "remove",
            f"Remove the {noun}",
            _plan_remove,
            fields=(DIGEST,),
            intro=f"The comments directly above the {noun} go with it.",
            **current,
        ),
    )


ROUTING_FORMS: Final = (
    *_make_forms(
        RULES,
        (
            Field(
                "keywords",
                "Keywords",
                parse_keywords,
                "One a line, without commas between them. They are whole words of the last user message, in any case.",
                "textarea",
                is_required=True,
                max_chars=MAX_LIST_CHARS,
                rows=5,
            ),
            _MODEL,
        ),
        "The first rule that matches wins. Rules are tried before heuristics.",
    ),
    *_make_forms(
        HEURISTICS,
        (
            Field(
                "when",
                "When the request",
                kind="select",
                options=[(one, _WHEN_WORDS[one]) for one in get_args(HeuristicWhen)],
                is_required=True,
            ),
            Field(
                "threshold_tokens",
                "Threshold in tokens",
                parse_count,
                "The estimated size of the prompt. Only for a heuristic about prompt tokens.",
            ),
            _MODEL,
        ),
        "The first heuristic that matches wins. Rules are tried before heuristics.",
    ),
    *_make_forms(
        ALIASES,
        (
            Field(
                "name",
                "Name",
                parse_text,
                "A name that clients send, or the beginning of such names and *.",
                is_required=True,
            ),
            _MODEL,
        ),
        "Of several names that match, the longest decides. Aliases come before rules.",
        is_ordered=False,
    ),
)
