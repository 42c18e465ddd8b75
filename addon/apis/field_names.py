"""The names of chat fields in the words of another API, for what a client is told about its request. Pure."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from policies.refusal import Refusal

type Sources = Mapping[str, Sequence[str]]
"""For each element of the chat fields ``messages`` and ``tools`` the path of what it is from."""

NO_SOURCES: Final[Sources] = MappingProxyType({"messages": (), "tools": ()})

_ELEMENT: Final = re.compile(r"(messages|tools)\.([0-9]{1,9})(?=\.|$)")


def rename_field(path: str, names: Mapping[str, str], sources: Sources = NO_SOURCES) -> str:
    """Return the path of a field of a chat request as the path of what it was made of.

    ``names`` has those that the API calls otherwise, also parts of fields: ``tools.parameters``. What is inside of a
    message or of a tool has another form there, and no path.
    """
    if found := _ELEMENT.match(path):
        field, at = found[1], int(found[2])
        return sources[field][at] if at < len(sources[field]) else names.get(field, field)
    known = path
    while known:
        if known in names:
            return names[known] + path[len(known) :]
        known = known.rpartition(".")[0]
    return path


def rename_in_refusal(refusal: Refusal, names: Mapping[str, str], sources: Sources = NO_SOURCES) -> Refusal:
    """Return a refusal that names a field of a chat request as one that names it in the words of the API."""
    if refusal.param is None:
        return refusal
    renamed = refusal.copy()
    renamed.param = rename_field(refusal.param, names, sources)
    if refusal.message.startswith(refusal.param):
        renamed.message = renamed.param + refusal.message[len(refusal.param) :]
    return renamed
