"""Texts of others, made harmless for terminals and pages. Pure."""


def escape_unprintable(text: str) -> str:
    """Show each unprintable character but line ends as an escape such as ``\\x1b``.

    Text of others must not control where it is shown: no colour, no cursor, no change of the writing direction.
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )
