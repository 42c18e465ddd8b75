"""Each page has a function that loads it."""

from addon.console.pages import PAGES
from addon.console.views.loaders import LOADERS


def test_each_page_has_its_loader() -> None:
    assert [page.name for page in PAGES] == list(LOADERS)
