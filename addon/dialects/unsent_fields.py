"""The fields of a sanitized chat body that a native request does not send at all. Pure.

``unsent_fields`` looks at the finished request, so it says what the dialect did. ``explain/field_diff.py`` asks the
dialect again, field by field, which costs too much for each call. A test checks that the two agree.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def unsent_fields(
    body: Mapping[str, Any],
    sent: Iterable[str],
    carriers: Mapping[str, Sequence[str]],
    message_fields: Iterable[str],
) -> tuple[str, ...]:
    """Return the fields of ``body`` that are not sent at all; those of messages as ``messages.name``.

    | parameter | meaning |
    |---|---|
    | ``sent`` | the names in the native request |
    | ``carriers`` | each chat field, and the native names that may carry it; without an entry, its own name |
    | ``message_fields`` | the fields of a message that the dialect reads |
    """
    there = set(sent)
    missing = [name for name in body if there.isdisjoint(carriers.get(name, (name,)))]
    unread = {name for message in body["messages"] for name in message}.difference(message_fields)
    return (*missing, *(f"messages.{name}" for name in sorted(unread)))
