"""``X-Gateway-Dropped``: the fields of a client's request that were not sent upstream as the client wrote them. Pure.

Source: docs/catalog.md, "What is dropped".
"""

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Final

from addon.apis.field_names import rename_field
from addon.text.errors import NO_NAMES
from addon.text.masking import mask_credentials
from policies.family import RESERVED
from policies.field_change import LOSSES, FieldChange

HEADER: Final = "x-gateway-dropped"
MAX_NAMES: Final = 20

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def format_dropped_header(
    given: Collection[str],
    sent_on: Collection[str],
    *reports: Iterable[str],
    untranslated: Iterable[str] = (),
    names: Mapping[str, str] = NO_NAMES,
) -> str | None:
    """Return the value of the header, None where nothing was dropped.

    ``given`` are the fields of the request, ``sent_on`` those of them that the family knows. ``reports`` name fields
    that were dropped later, such as ``messages.name``. ``untranslated`` are fields of another API that chat lacks.
    ``names`` are the chat fields that it calls otherwise.
    """
    dropped = {name for name in given if name not in sent_on}
    for report in reports:
        # A field that a rule added, and the client did not send, is not reported.
        dropped |= {name for name in report if name.partition(".")[0] in given}
    # The gateway itself applies the reserved fields, so they are never reported as dropped.
    dropped -= RESERVED
    if names:
        dropped = {rename_field(name, names) for name in dropped}
    return _listed(dropped | set(untranslated))


def list_dropped(changes: Iterable[FieldChange]) -> Iterable[str]:
    """Return the names of the fields that ``changes`` drop, shorten, or give another value."""
    return (change.field for change in changes if change.action in LOSSES)


def _listed(names: Collection[str]) -> str | None:
    """Return the list. A name that does not fit into a header, or that looks like a credential, is only counted."""
    fitting = sorted(filter(_NAME.fullmatch, names))
    named = list(islice((name for name in fitting if mask_credentials(name) == name), MAX_NAMES))
    more = len(names) - len(named)
    return ", ".join([*named, *([f"+{more}"] if more else [])]) or None
