"""The addresses of a console: what its pages link to, from the first page on."""

import re
from collections import Counter, deque
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import override
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx

from addon.console.pages import NAVIGATION, PAGES
from rig.bounds import BOUND_S

ALIKE = 2
"""How many links of one shape are followed: the same page with the same names of parameters."""

MOST_OF_A_VIEW = 8
"""How many links to one view are followed. A list whose rows add filters has links of thousands of shapes."""


@dataclass(frozen=True, slots=True)
class Address:
    """A path of the console and the status of its answer."""

    path: str
    status: int


@dataclass
class Site:
    """All pages that are found by following links.

    ``views`` has one address of each view by its name; a view with no link to it has an address that answers 404.
    ``broken`` are the links that do not answer 200, and ``outside`` the links to other origins.
    """

    views: dict[str, Address] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    outside: set[str] = field(default_factory=set)


def explore(origin: str) -> Site:
    """Follow the links of the console at ``origin``, at most ``ALIKE`` of each shape."""
    site, seen, of_view = Site(), Counter[tuple[str, frozenset[str]]](), Counter[str]()
    waiting = deque((path, "the navigation") for path, *_ in NAVIGATION)
    known = {path for path, _ in waiting}
    with httpx.Client(base_url=origin, timeout=BOUND_S, trust_env=False) as client:
        while waiting:
            path, source = waiting.popleft()
            shape = _shape(path)
            seen[shape] += 1
            if seen[shape] > ALIKE or of_view[shape[0]] >= MOST_OF_A_VIEW:
                continue
            of_view[shape[0]] += 1
            answer = client.get(path)
            if answer.status_code != 200:
                site.broken.append(f"{path} (from {source}): {answer.status_code}")
                continue
            if not answer.headers["content-type"].startswith("text/html"):
                continue
            site.views.setdefault(shape[0], Address(path, 200))
            if len(shape[1]) > 1:  # filters can be combined in too many ways
                continue
            for link in _links(answer.text, f"{origin}{path}"):
                if not link.startswith(f"{origin}/"):
                    site.outside.add(link)
                elif (inner := link.removeprefix(origin)) not in known:
                    known.add(inner)
                    waiting.append((inner, path))
    for page in PAGES:
        site.views.setdefault(page.name, Address(re.sub(r"\(.*?\)", "nothing", page.path), 404))
    return site


def _shape(path: str) -> tuple[str, frozenset[str]]:
    parts = urlsplit(path)
    data = re.match("/api/v[0-9]+", parts.path)
    inner = parts.path.removeprefix(data[0] if data else "")
    names = [page.name for page in PAGES if page.matches(inner) is not None]
    place = f"{data[0] if data else ''}{names[0]}" if names else parts.path
    return place, frozenset(name for name, _ in parse_qsl(parts.query))


class _LinkParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def _links(page: str, base: str) -> list[str]:
    parser = _LinkParser()
    parser.feed(page)
    return [urljoin(base, link).partition("#")[0] for link in parser.found]
