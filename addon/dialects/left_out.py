"""Which fields of a sanitized body a native request bears nothing of. Pure.

It looks at the request that was made, so it says what the dialect did; ``carried`` asks the dialect again, field by
field, which is too dear for each call. A test holds the two to each other.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def left_out(
    body: Mapping[str, Any],
    sent: Iterable[str],
    carriers: Mapping[str, Sequence[str]],
    message_fields: Iterable[str],
) -> tuple[str, ...]:
    """Return the fields of ``body`` of which nothing is sent, those of messages as ``messages.name``.

    ``sent`` are the names in the native request; ``carriers`` maps a chat field to those of them that may bear it, its
    own name where there is no entry; ``message_fields`` are what the dialect reads of a message.
    """
    there = set(sent)
    missing = [name for name in body if there.isdisjoint(carriers.get(name, (name,)))]
    unread = {name for message in body["messages"] for name in message}.difference(message_fields)
    return (*missing, *(f"messages.{name}" for name in sorted(unread)))
