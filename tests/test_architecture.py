"""Imports run one way, main → gateway → the rest of addon → policies, and pure modules stay pure."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

ENTRY_POINTS = ("addon.main", "addon.cli", "addon.commands", "addon.serve.server", "addon.serve.worker")
SEQUENCES = (
    "addon.gateway.addon",
    "addon.gateway.lifecycle",
    "addon.calls",
    "addon.gateway.flows",
    "addon.serve.supervisor",
    *ENTRY_POINTS,
)
"""What brings the others together: each call's sequence and its end, the start and stop of the parts, the commands."""
FOUNDATIONS = (
    "addon.runtime",
    "addon.runtime.keepalive",
    "addon.runtime.listening",
    "addon.runtime.local_http",
    "addon.telemetry.log_limits",
)
"""What modules that do I/O may stand on: knows nothing of the gateway."""

IO_LIBRARIES = frozenset(
    {"asyncio", "httpx", "redis", "socket", "sqlite3", "sqlite_utils", "subprocess", "tornado"}
)
OUTSIDE_WORLD = IO_LIBRARIES | {
    *(
        "fcntl",
        "http.client",
        "http.server",
        "io",
        "mitmproxy",
        "multiprocessing",
        "os",
        "pathlib",
        "random",
        "secrets",
    ),
    *("selectors", "shutil", "signal", "ssl", "tempfile", "threading", "time", "urllib.request"),
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {
    module_name(path): path for folder in ("addon", "policies") for path in (ROOT / folder).rglob("*.py")
}


def runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node, without what stands under ``if TYPE_CHECKING``: that is never run."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from runtime_nodes(node)


def says_pure(module: str) -> bool:
    """Return whether the module's docstring promises it; the promise is what is tested."""
    return "Pure." in (ast.get_docstring(ast.parse(FILES[module].read_text(encoding="utf-8"))) or "")


PURE = [name for name in FILES if says_pure(name)]


def imports_of(module: str) -> set[str]:
    """Return the dotted names that ``module`` imports; ``from a import b`` gives ``a.b`` where that is a module."""
    found: set[str] = set()
    for node in runtime_nodes(ast.parse(FILES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively; write the whole name"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & FILES.keys() or {str(node.module)}
    return found


IMPORTS = {module: imports_of(module) for module in FILES}


def is_in(module: str, rooms: tuple[str, ...]) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


def uses(module: str, libraries: frozenset[str]) -> set[str]:
    return {name for name in IMPORTS[module] if is_in(name, tuple(libraries))}


def reachable(module: str) -> set[str]:
    """Return ``module`` and all of the project's modules that it brings in."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        if (one := waiting.pop()) in FILES and one not in seen:
            seen.add(one)
            waiting += IMPORTS[one]
    return seen


def test_the_modules_were_found_and_read():
    assert {"addon.main", "addon.gateway.addon", "policies.exchange", "policies.model"} <= FILES.keys()
    assert "policies.model" in IMPORTS["policies.exchange"]


@pytest.mark.parametrize("module", [name for name in FILES if is_in(name, ("policies",))])
def test_the_core_imports_nothing_from_the_shell_and_knows_no_outside_world(module: str):
    assert not {name for name in IMPORTS[module] if is_in(name, ("addon",))}
    assert not uses(module, OUTSIDE_WORLD)


def test_what_turns_bytes_and_values_into_bytes_and_values_promises_to_be_pure():
    modules = {
        *(
            "addon.calls.chat_request",
            "addon.text.json_decode",
            "addon.text.errors",
            "addon.text.provider_error",
            "addon.text.masking",
        ),
        *(
            "addon.answers.usage",
            "addon.answers.stream",
            "addon.answers.whole",
            "addon.text.json_edits",
            "addon.answers.text_length",
            "addon.answers.readers",
        ),
        *("addon.dialects.http_request", "addon.calls.public_catalog"),
        *("addon.dialects", "addon.dialects.openai"),
        *("addon.sandbox.request", "addon.sandbox.script", "addon.sandbox.schema"),
        *("addon.sandbox.directives", "addon.sandbox.answer"),
    }
    assert modules <= set(PURE)


@pytest.mark.parametrize("module", PURE)
def test_a_pure_module_reaches_no_outside_world(module: str):
    assert not {one: uses(one, OUTSIDE_WORLD) for one in reachable(module) if uses(one, OUTSIDE_WORLD)}


@pytest.mark.parametrize("module", list(FILES))
def test_only_entry_points_import_the_gateway_and_nothing_imports_an_entry_point_but_another(module: str):
    if is_in(module, ENTRY_POINTS):
        return
    assert not {name for name in IMPORTS[module] if is_in(name, ("addon.gateway.addon", *ENTRY_POINTS))}


def io_rooms() -> dict[str, str]:
    """Return the modules that do I/O themselves, each with its room: a package counts as one."""
    doing = [name for name in FILES if uses(name, IO_LIBRARIES) and not is_in(name, SEQUENCES + FOUNDATIONS)]
    return {name: ".".join(name.split(".")[:2]) for name in doing}


@pytest.mark.parametrize("module", list(io_rooms()))
def test_modules_that_do_io_never_import_each_other(module: str):
    rooms = io_rooms()
    assert not {name for name in IMPORTS[module] if name in rooms and rooms[name] != rooms[module]}


@pytest.mark.parametrize("module", FOUNDATIONS)
def test_a_foundation_knows_nothing_of_the_gateway(module: str):
    assert reachable(module) <= {*FOUNDATIONS}


WAY_OF_A_CALL = (
    "addon.gateway.addon",
    "addon.gateway.flows",
    "addon.calls",
    "addon.wire",
    "addon.upstream",
    "addon.dialects",
)
"""The rooms that a call passes, each of which imports those behind it only. ``wire`` knows nothing of ``upstream``."""


@pytest.mark.parametrize("at", range(1, len(WAY_OF_A_CALL)), ids=lambda at: WAY_OF_A_CALL[at])
def test_the_rooms_of_a_call_import_one_way(at: int):
    room, before = WAY_OF_A_CALL[at], WAY_OF_A_CALL[:at]
    inside = [module for module in FILES if is_in(module, (room,))]
    assert inside
    assert not {(one, name) for one in inside for name in IMPORTS[one] if is_in(name, before)}


def test_the_wire_knows_nothing_of_the_upstream():
    wire = [module for module in FILES if is_in(module, ("addon.wire",))]
    assert not {(one, name) for one in wire for name in IMPORTS[one] if is_in(name, ("addon.upstream",))}


def test_no_module_imports_itself_by_a_detour():
    order = TopologicalSorter(
        {name: imported & FILES.keys() for name, imported in IMPORTS.items()}
    ).static_order()
    assert set(order) == FILES.keys()
