"""What spend can be told apart by besides keys: the end user of a call, and its tags. Pure.

A tag is a name in ``metadata`` of the request. In commands, pages and files they are ``user`` and ``tag:NAME``.
"""

import re
from typing import Final

USER: Final = "user"
TAG: Final = "tag:"
_TAG = re.compile(r"tag:[A-Za-z0-9_.:@+ -]{1,64}")
TAG_NAME_IS: Final = "1 to 64 letters, digits, blanks and characters of _.:@+-"


def is_tag(text: str) -> bool:
    """Return whether ``text`` is ``tag:NAME``. A name has no comma, quote or slash, so that it fits into lists."""
    return _TAG.fullmatch(text) is not None
