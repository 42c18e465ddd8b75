"""``Svg``: a picture as text that is safe to write into a page, and the elements that it is made of. Pure."""

from collections.abc import Iterable
from html import escape

from addon.text.unprintable import escape_unprintable


class Svg(str):
    """An ``<svg>`` element. Its texts and attributes are escaped, so templates write it as it is."""

    __slots__ = ()


def element(tag: str, *content: str, **attributes: str | float) -> Svg:
    """Return an element. ``content`` is text or ``Svg``. Names are as in Python: ``class_``, ``aria_label``."""
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_attribute(value)}"' for name, value in attributes.items()
    )
    inner = "".join(one if isinstance(one, Svg) else _text(one) for one in content)
    return Svg(f"<{tag}{given}>{inner}</{tag}>" if inner else f"<{tag}{given}/>")


def join(parts: Iterable[Svg]) -> Svg:
    """Return elements one after the other."""
    return Svg("".join(parts))


def _attribute(value: str | float) -> str:
    return _text(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def _text(value: str) -> str:
    return escape(escape_unprintable(value).replace("\n", " "))
