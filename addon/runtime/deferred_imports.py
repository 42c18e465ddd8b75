"""Imports of libraries whose code runs only when it is used.

``mitmproxy.addons`` and ``mitmproxy.proxy.layers`` import all of mitmproxy: web pages, LDAP, filters. A gateway uses
two or three modules of each. Other libraries mitmproxy uses only in functions that a gateway never calls.

A module of ``DEFERRED`` is empty after its import. Its code runs at the first use of a name that is not a submodule.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

DEFERRED: Final = frozenset(
    {"mitmproxy.addons", "mitmproxy.proxy.layers", "ruamel.yaml", "service_identity"},
)


class _DeferredLoader(Loader):
    """Runs the code of a module at the first use of a name that it does not have yet."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        def find(name: str) -> Any:
            # The import system and ``inspect`` ask for such names, which is no use.
            if name.startswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            submodule = f"{module.__name__}.{name}"
            if hasattr(module, "__path__") and find_spec(submodule):
                return import_module(submodule)
            vars(module).pop("__getattr__", None)
            self._loader.exec_module(module)
            return getattr(module, name)

        module.__dict__["__getattr__"] = find


class _DeferredFinder(MetaPathFinder):
    """Finds the modules of ``DEFERRED``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in DEFERRED else None
        if spec and spec.loader:
            spec.loader = _DeferredLoader(spec.loader)
        return spec


def defer_imports() -> None:
    """Defer the modules of ``DEFERRED`` that this process has not imported yet."""
    if not any(isinstance(one, _DeferredFinder) for one in sys.meta_path):
        sys.meta_path.insert(0, _DeferredFinder())
