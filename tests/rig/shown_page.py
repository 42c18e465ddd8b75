"""The texts that a person reads on a page of the console: its tables, its figures and its lines."""

from typing import Any

from rig.browser import Tab

_TABLE = """name => {
    const table = document.getElementById('table-' + name);
    const columns = [...table.tHead.rows[0].cells].map(cell => cell.title);
    return [...table.tBodies[0].rows].map(row => Object.fromEntries(
        [...row.cells].map((cell, place) => [columns[place], cell.innerText.trim()])));
}"""

_TILES = """() => Object.fromEntries([...document.querySelectorAll('.tile')].map(tile => [
    tile.querySelector('dt').innerText.trim(), {
        figure: tile.querySelector('.figure').innerText.trim(),
        exact: tile.querySelector('.figure').title,
        note: tile.querySelector('.note').innerText.trim(),
    }]))"""


def read_table(tab: Tab, name: str) -> list[dict[str, str]]:
    """Return the texts of a table, by the ledger's names of its columns."""
    rows: list[dict[str, str]] = tab.evaluate(_TABLE, name)
    return rows


def read_tiles(tab: Tab) -> dict[str, dict[str, str]]:
    """Return the figures above the tables, each with its exact value and its note."""
    tiles: dict[str, dict[str, str]] = tab.evaluate(_TILES)
    return tiles


def read_ids(tab: Tab) -> list[Any]:
    """Return the ids of the calls that ``/calls`` shows, in their order."""
    links: list[str] = tab.evaluate(
        "[...document.querySelectorAll('#table-calls tbody th a')].map(link => link.pathname)"
    )
    return [link.rpartition("/")[2] for link in links]
