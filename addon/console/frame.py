"""``Frame``: what is around the content of each page, and what its parts know of it."""

from dataclasses import dataclass

from addon.console.query import Query


@dataclass(frozen=True, slots=True)
class Frame:
    """The address of a page and its visitor.

    | field | is |
    |---|---|
    | ``path`` | the path of the page |
    | ``query`` | its parameters |
    | ``form_token`` | the token that its forms must send back |
    | ``is_logged_in`` | whether the visitor has a session |
    | ``edit_obstacle`` | why nothing may be changed; None where it may |
    """

    path: str
    query: Query
    form_token: str = ""
    is_logged_in: bool = False
    edit_obstacle: str | None = None
