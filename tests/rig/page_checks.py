"""Checks that every page must pass: each function returns the faults that it finds."""

from collections import Counter
from typing import Any

from rig.browser import NARROW, WIDE, Tab

_FRAME = """() => ({
    title: document.title,
    headings: [...document.querySelectorAll('h1')].map(one => one.innerText.trim()),
    language: document.documentElement.lang,
    stolen: globalThis.stolen ?? null,
    twice: [...document.querySelectorAll('[id]')].map(one => one.id)
        .filter((id, place, all) => all.indexOf(id) !== place),
})"""

_OVERFLOW = """() => {
    const room = document.documentElement.clientWidth;
    const excess = document.documentElement.scrollWidth - room;
    if (excess <= 0) return [];
    const isIn = one => one.closest('.scroll, pre') === null;
    const wide = [...document.body.querySelectorAll('*')]
        .filter(one => isIn(one) && one.getBoundingClientRect().right > room + 1)
        .map(one => one.outerHTML.slice(0, 120));
    return [`${excess} px wider than ${room} px`, ...wide.slice(-3)];
}"""

_CONTROLS = """() => {
    const all = document.querySelectorAll(
        'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]');
    const faults = all[0].className === 'skip' ? [] : ['the first control does not skip to the content'];
    for (const one of all) {
        if (!one.checkVisibility({ visibilityProperty: true }) || one.disabled) continue;
        const look = () => {
            const style = getComputedStyle(one);
            const ring = style.outlineStyle === 'none' ? '' : style.outlineWidth + style.outlineColor;
            return [ring, style.boxShadow, style.borderColor, style.backgroundColor].join();
        };
        one.blur();
        const before = look();
        one.focus();
        if (document.activeElement !== one || one.tabIndex < 0) faults.push('not reached: ' + one.outerHTML);
        else if (look() === before) faults.push('shows no focus: ' + one.outerHTML);
    }
    return faults.map(fault => fault.slice(0, 200));
}"""

_AXE = """async (rules) => {
    const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
    const chosen = rules ? { type: 'rule', values: rules } : { type: 'tag', values: tags };
    const found = await axe.run(document, { runOnly: chosen, resultTypes: ['violations'] });
    return found.violations
        .filter(one => ['serious', 'critical'].includes(one.impact))
        .flatMap(one => one.nodes.slice(0, 3).map(node => `${one.id}: ${node.target}: ${node.failureSummary}`));
}"""

_COLOURS = ("color-contrast", "link-in-text-block")
_SIZES = ("target-size", "scrollable-region-focusable")


_TABLES = """() => [...document.querySelectorAll('table.cards')].flatMap(table => {
    const box = table.closest('.scroll');
    const wide = box.scrollWidth > box.clientWidth ? [`${table.id} is wider than its box`] : [];
    const bare = [...table.tBodies[0].rows].flatMap(row => [...row.cells].slice(1)).filter(cell =>
        cell.checkVisibility() && getComputedStyle(cell, '::before').content.startsWith('"" ') &&
        cell.innerText.trim() !== table.tHead.rows[0].cells[cell.cellIndex].innerText.trim());
    return [...wide, ...bare.map(cell => `${table.id} has a cell without a name: ${cell.outerHTML}`)];
})"""


def check_frame(tab: Tab) -> list[str]:
    """Check the title, the one main heading, the language and the ids, and that no text of a client is a script."""
    frame: dict[str, Any] = tab.evaluate(_FRAME)
    faults = []
    if len(frame["headings"]) != 1 or not frame["headings"][0]:
        faults.append(f"main headings: {frame['headings']}")
    if not frame["title"].endswith(" · Tollgate"):
        faults.append(f"title: {frame['title']!r}")
    if frame["language"] != "en":
        faults.append(f"language: {frame['language']!r}")
    if frame["stolen"] is not None:
        faults.append("a script of a client has run")
    return faults + [f"id used twice: {one}" for one in frame["twice"]]


def check_widths(tab: Tab) -> list[str]:
    """Check that only tables and code scroll sideways, never the page. Leave the window wide."""
    faults = []
    for width in (NARROW, WIDE):
        tab.resize(width)
        faults += tab.evaluate(_OVERFLOW)
    return faults


def check_keyboard(tab: Tab) -> list[str]:
    """Check that the keyboard reaches every visible control, and that each one shows that it has the focus."""
    tab.page.keyboard.press(
        "Tab"
    )  # from now on the browser shows the focus, as to people who use the keyboard
    faults: list[str] = tab.evaluate(_CONTROLS)
    return faults


def check_accessibility(tab: Tab, axe: str) -> list[str]:
    """Check with axe-core that the page has no serious fault: all rules, then those that dark and narrow pages change.

    Leave the window wide and the system light.
    """
    tab.evaluate(axe)
    # Where the page was left by other checks, its sticky head may cover half of a link.
    tab.evaluate("() => window.scrollTo(0, 0)")
    faults = [f"axe: {one}" for one in tab.evaluate(_AXE)]
    tab.use_scheme("dark")
    faults += [f"axe, dark: {one}" for one in tab.evaluate(_AXE, _COLOURS)]
    tab.use_scheme("light")
    tab.resize(NARROW)
    faults += [f"axe, {NARROW} px: {one}" for one in tab.evaluate(_AXE, _SIZES)]
    tab.resize(WIDE)
    return faults


def check_tables(tab: Tab) -> list[str]:
    """Check that a narrow window shows wide tables as cards with names, and that they are tables to a screen reader."""
    faults: list[str] = tab.evaluate(_TABLES)
    devtools = tab.page.context.new_cdp_session(tab.page)
    nodes = devtools.send("Accessibility.getFullAXTree")["nodes"]
    devtools.detach()
    found = Counter(node["role"]["value"] for node in nodes if not node["ignored"])
    for role, elements in (
        ("table", "table"),
        ("row", "tr"),
        ("columnheader", "thead th"),
        ("rowheader", "tbody th"),
    ):
        count = tab.evaluate(
            f"[...document.querySelectorAll('{elements}')].filter(e => e.checkVisibility()).length"
        )
        if found[role] != count:
            faults.append(f"{count} elements {elements!r}, but {found[role]} of the role {role}")
    return faults
