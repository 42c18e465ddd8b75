"""``is_common``: whether a password is one of those that every word list begins with.

The word list is that of zxcvbn: the 30,000 most frequent passwords of leaked lists. ``_SHORT`` has some that are too
short by themselves, so people add a year and a sign to them.
"""

from typing import Final

_SHORT: Final = """
123456 123456789 abc123 admin administrator changeme changemenow default dragon gateway guest iloveyou letmein
login master monkey p@ssw0rd p@ssword passphrase passw0rd password qwerty qwertyuiop root secret superuser test
tollgate tollgateadmin user welcome
"""

_BEGINNINGS: Final = frozenset(_SHORT.split())
_ROWS: Final = (
    "1234567890" * 3,
    "0987654321" * 3,
    "abcdefghijklmnopqrstuvwxyz",
    "qwertyuiopasdfghjklzxcvbnm",
)
_ADDED: Final = "0123456789!?.,;:@#$%&*+-_ "
_MAX_REPEATED: Final = 12


def is_common(password: str) -> bool:
    """Return whether a word list has the password, perhaps in other case, repeated, or with digits and signs added."""
    text = _find_repeated(password.casefold())
    return (
        len(set(text)) < 4
        or _is_in_word_list(text)
        or any(text in row for row in _ROWS)
        or not _BEGINNINGS.isdisjoint((text, text.strip(_ADDED), text.rstrip(_ADDED)))
    )


def _is_in_word_list(text: str) -> bool:
    # The list is large, and only a console password needs it.
    from zxcvbn.frequency_lists import FREQUENCY_LISTS  # type: ignore[import-untyped]

    return text in FREQUENCY_LISTS["passwords"]


def _find_repeated(text: str) -> str:
    """Return the part that a text repeats, else the text."""
    for size in range(1, _MAX_REPEATED + 1):
        part = text[:size]
        if len(text) > size and part * (len(text) // size) == text:
            return part
    return text
