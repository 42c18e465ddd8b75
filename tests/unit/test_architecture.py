"""Packages import only later packages of ``PACKAGES``. Modules that say "Pure." do no input or output."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from rig.configuration import ROOT

PACKAGES = (
    *(
        "addon.main",
        "addon.cli",
        "addon.commands",
        "addon.serve",
        "addon.gateway",
        "addon.console",
        "addon.explain",
        "addon.reconcile",
    ),
    *("addon.calls", "addon.wire", "addon.upstream", "addon.apis", "addon.dialects", "addon.answers"),
    *(
        "addon.alerts",
        "addon.fleet",
        "addon.store",
        "addon.edits",
        "addon.settings",
        "addon.telemetry",
        "addon.sandbox",
    ),
    *("addon.runtime", "addon.text", "addon"),
    "policies",
)
"""The packages and top-level modules: each imports only those after it. ``addon`` has the version."""
STRANGERS = (
    ("addon.wire", "addon.upstream"),
    ("addon.calls", "addon.sandbox"),
    ("addon.settings", "addon.telemetry"),
)
"""Pairs of packages: the order would allow an import, but the first imports nothing from the second."""

OUTSIDE_WORLD = frozenset(
    {
        *(
            "asyncio",
            "fcntl",
            "http.client",
            "http.server",
            "httpx",
            "io",
            "mitmproxy",
            "multiprocessing",
            "os",
        ),
        *("pathlib", "random", "redis", "secrets", "selectors", "shutil", "signal", "socket", "sqlite3"),
        *("sqlite_utils", "ssl", "subprocess", "tempfile", "threading", "time", "tornado", "urllib.request"),
    }
)
PURE_MODULES = {
    *("addon.text.json_decode", "addon.text.json_edits", "addon.text.errors", "addon.text.masking"),
    *(
        "addon.text.provider_error",
        "addon.text.http1_heads",
        "addon.apis.chat.request",
        "addon.calls.public_catalog",
    ),
    *("addon.sandbox.request", "addon.sandbox.reply", "addon.sandbox.schema", "addon.sandbox.completion"),
}
"""Pure modules outside the pure packages: they turn bytes and values into bytes and values."""
PURE_PACKAGES = ("addon.apis", "addon.dialects", "addon.answers", "addon.reconcile")
"""Packages with only pure modules."""


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {
    module_name(path): path for folder in ("addon", "policies") for path in (ROOT / folder).rglob("*.py")
}


@cache
def trees() -> dict[str, ast.Module]:
    """The syntax trees of all modules. They are read when a test asks: each process of a run loads this file."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}


def statements(parent: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements below ``parent``. Expressions, which are most nodes, contain none."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield node
            yield from statements(node)


def imports_of(module: str) -> Iterator[str]:
    """Yield the dotted names that ``module`` imports, also those for type checking.

    ``from a import b`` yields ``a.b`` if that is a module.
    """
    for node in statements(trees()[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively; write the whole name"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from names & FILES.keys() or {str(node.module)}


@cache
def imports() -> dict[str, set[str]]:
    """The imports of each module."""
    return {module: set(imports_of(module)) for module in FILES}


@cache
def names_of(module: str) -> set[str]:
    """Return the modules that ``module`` names in a string, to load them later or in another process."""
    strings = (node.value for node in ast.walk(trees()[module]) if isinstance(node, ast.Constant))
    return {text for text in strings if isinstance(text, str) and "." in text and text in FILES}


def is_in(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def package_of(module: str) -> str:
    """Return the package of ``PACKAGES`` that contains ``module``."""
    parts = module.split(".")
    name = parts[0] if parts[0] == "policies" else ".".join(parts[:2])
    assert name in PACKAGES, f"{module} is in none of PACKAGES"
    return name


def outside_world_of(module: str) -> set[str]:
    return {name for name in imports()[module] if is_in(name, tuple(OUTSIDE_WORLD))}


def reachable(module: str) -> set[str]:
    """Return ``module`` and all modules of the project that it imports, directly or indirectly."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        if (one := waiting.pop()) in FILES and one not in seen:
            seen.add(one)
            waiting += imports()[one]
    return seen


def pure() -> list[str]:
    return [name for name in FILES if "Pure." in (ast.get_docstring(trees()[name]) or "")]


def test_the_modules_are_found_and_read():
    assert {"addon.main", "addon.gateway.addon", "policies.exchange", "policies.model"} <= FILES.keys()
    assert "policies.model" in imports()["policies.exchange"]
    assert {package_of(module) for module in FILES} == set(PACKAGES)


def test_imports_run_in_the_order_of_the_packages():
    upward, between_strangers = [], []
    for module in FILES:
        named = (imports()[module] & FILES.keys()) | names_of(module)
        ours = [name for name in named if package_of(name) != package_of(module)]
        place = PACKAGES.index(package_of(module))
        upward += [(module, name) for name in ours if PACKAGES.index(package_of(name)) < place]
        between_strangers += [
            (module, name) for name in ours if (package_of(module), package_of(name)) in STRANGERS
        ]
    assert not upward
    assert not between_strangers


def test_there_are_no_circles_of_modules():
    """Also inside a package, and also where a module is loaded by its name."""
    assert "addon.serve.worker" in names_of("addon.serve.template_process")
    graph = {name: (imported & FILES.keys()) | names_of(name) for name, imported in imports().items()}
    assert set(TopologicalSorter(graph).static_order()) == FILES.keys()


def test_a_gateway_does_not_load_what_only_pages_need():
    """Pages are made in a process of their own, so a gateway starts without their modules."""
    pages = {name for name in FILES if name.startswith("addon.console.views.")}
    of_gateway = (
        reachable("addon.main") | reachable("addon.serve.supervisor") | reachable("addon.console.console")
    )
    assert "addon.console.rendering" in of_gateway
    assert not of_gateway & (pages | {"addon.console.page_process.maker"})
    assert pages <= reachable("addon.console.page_process.__main__")


def test_no_module_unpickles():
    unpickling = {"copyreg", "dill", "marshal", "pickle", "shelve"}
    assert not {module: found for module in FILES if (found := imports()[module] & unpickling)}


def test_policies_do_no_input_or_output():
    policies = [name for name in FILES if is_in(name, ("policies",))]
    assert policies
    assert not {name: found for name in policies if (found := outside_world_of(name))}


def test_pure_modules_say_that_they_are_pure():
    of_packages = {name for name in FILES if is_in(name, PURE_PACKAGES)}
    assert not (PURE_MODULES | of_packages) - set(pure())


def test_a_pure_module_does_no_input_or_output():
    below = {one for module in pure() for one in reachable(module)}
    assert not {one: found for one in below if (found := outside_world_of(one))}


UNIT = ROOT / "tests" / "unit"
UNIT_TESTS = [path for path in UNIT.rglob("test_*.py") if path.parent != UNIT]


def test_unit_tests_are_found_by_the_name_of_their_module():
    """A file is ``test_<name>.py`` or ``test_<name>_<topic>.py``; the name is a module of its folder, or the folder."""
    assert UNIT_TESTS
    misnamed = []
    for test in UNIT_TESTS:
        folder = test.parent.relative_to(UNIT)
        homes = [home / folder for home in (ROOT / "addon", ROOT, ROOT / "tests") if (home / folder).is_dir()]
        names = {path.stem for home in homes for path in home.iterdir()} | {folder.name}
        if not homes or not any(f"{test.stem}_".startswith(f"test_{name}_") for name in names):
            misnamed.append(test)
    assert not misnamed
