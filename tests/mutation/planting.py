"""Put one fault into code that is already imported, or that a new process imports."""

import gc
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from rig import bounds

from mutation.faults import Fault, faulty_tree, nested_codes

ROOT = Path(__file__).parents[2]
PRODUCT = tuple(f"{ROOT}/{name}/" for name in ("addon", "policies"))
"""The folders of the code that gets faults."""

WAIT_S = 40.0
"""How long the tests of a fault wait for what never happens. Without a fault no wait takes a tenth of it."""


def plant_in_functions(fault: Fault) -> bool:
    """Give all living functions of the module the faulty code. Return False if the fault is outside of functions."""
    path = ROOT / fault.path
    source = path.read_text(encoding="utf-8")
    sound = _codes(compile(source, str(path), "exec"))
    faulty = _codes(_compiled(path, source, fault))
    changed = {place: code for place, code in faulty.items() if code != sound.get(place)}
    planted = False
    for function in _functions_of(str(path)):
        code = changed.get(_place(function.__code__))
        if code is not None and len(code.co_freevars) == len(function.__code__.co_freevars):
            function.__code__ = code
            planted = True
    return planted


def shorten_waits() -> None:
    """Let tests wait for ``WAIT_S`` at most. Call this before they are imported."""
    bounds.BOUND_S = WAIT_S


class FaultyImport(importlib.abc.MetaPathFinder):
    """Import the module of a fault with the fault in it. Put it first into ``sys.meta_path``."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._name = fault.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of the faulty module, and None for all others."""
        if fullname != self._name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _FaultyLoader(fullname, spec.origin, self._fault)
        return spec


class _FaultyLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, fault: Fault) -> None:
        super().__init__(name, path)
        self._fault = fault

    def get_code(self, fullname: str) -> CodeType:
        path = Path(self.path)
        return _compiled(path, path.read_text(encoding="utf-8"), self._fault)


def _compiled(path: Path, source: str, fault: Fault) -> CodeType:
    code = compile(faulty_tree(source, fault.number), str(path), "exec")
    assert isinstance(code, CodeType)
    return code


def _codes(module: CodeType) -> dict[tuple[str, int], CodeType]:
    """Return the module's function bodies by place. Class bodies have run: a changed one changes nothing."""
    return {_place(code): code for code in nested_codes(module) if code.co_flags & 0x2}


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _functions_of(path: str) -> Iterator[FunctionType]:
    gc.unfreeze()  # The collector lists no frozen objects, and the tests freeze what their collection has made.
    for found in gc.get_objects():
        if type(found) is FunctionType and found.__code__.co_filename == path:
            yield found


def import_faulty(fault: Fault) -> None:
    """Let this process import the module with the fault in it from now on."""
    sys.meta_path.insert(0, FaultyImport(fault))
