"""All regular expressions of the project, found in its source."""

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("addon", "policies", "benchmarks")
_FUNCTIONS = frozenset(
    {"compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn"}
)
_ANCHORED = frozenset({"match", "fullmatch"})
_OF_OUR_OWN = frozenset({"_matching"})
"""Functions of the project that match a whole text with the given expression."""
_MAY_CALL = re.compile(rf"\bre\s*\.|{'|'.join(_OF_OUR_OWN)}")


@dataclass(frozen=True)
class Expression:
    """One expression and its place. ``searches`` is true if each position of a text is tried."""

    place: str
    pattern: re.Pattern[Any]
    searches: bool

    def __str__(self) -> str:
        return f"{self.place} {self.pattern.pattern!r}"[:60]


def modules() -> list[tuple[str, ast.Module]]:
    """Return the name and the syntax tree of each module that may call a function of ``_is_call``."""
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    found = []
    for path in files:
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        if _MAY_CALL.search(text):
            found.append((name, ast.parse(text)))
    return found


@cache
def find_expressions() -> tuple[list[Expression], set[str]]:
    """Return all expressions, and the functions that build one at run time."""
    found: list[Expression] = []
    dynamic: set[str] = set()
    for name, tree in modules():
        calls = [node for node in ast.walk(tree) if _is_call(node)]
        if not calls:
            continue
        namespace = vars(importlib.import_module(name))
        found += _constants_of(name, tree, namespace)
        for call in calls:
            try:
                pattern = eval(compile(ast.Expression(call.args[0]), name, "eval"), namespace)
                flags = _flags(call, namespace)
            except NameError:
                if (function := _function_around(tree, call)) != "<module>":
                    dynamic.add(f"{name}.{function}")
                continue
            method = "fullmatch" if isinstance(call.func, ast.Name) else call.func.attr
            if method != "compile" or _function_around(tree, call) != "<module>":
                compiled = re.compile(pattern, flags)
                found.append(Expression(f"{name}:{call.lineno}", compiled, method not in _ANCHORED))
    return found, dynamic


def _is_call(node: ast.AST) -> bool:
    """Return whether a node is a call such as ``re.search(…)``."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in _OF_OUR_OWN
    return (
        isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in _FUNCTIONS
    )


def _flags(call: ast.Call, namespace: dict[str, Any]) -> int:
    if isinstance(call.func, ast.Name):
        return 0
    at = {"compile": 1, "match": 2, "search": 2, "fullmatch": 2, "findall": 2, "finditer": 2}.get(
        call.func.attr
    )
    given = [word.value for word in call.keywords if word.arg == "flags"]
    given += call.args[at : at + 1] if at else []
    return int(eval(compile(ast.Expression(given[0]), "flags", "eval"), namespace)) if given else 0


def _function_around(tree: ast.Module, call: ast.Call) -> str:
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno <= call.lineno <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno).name if around else "<module>"


def _constants_of(name: str, tree: ast.Module, namespace: dict[str, Any]) -> Iterator[Expression]:
    for constant, value in namespace.items():
        for pattern in _patterns_in(value):
            yield Expression(f"{name}.{constant}", pattern, _is_searched(tree, constant))


def _patterns_in(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _patterns_in(item)


def _is_searched(tree: ast.Module, constant: str) -> bool:
    """Return whether a constant is used in another way than to match from a given position."""
    anchored = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in (*_ANCHORED, "pattern")
    }
    uses = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.Name) and n.id == constant and isinstance(n.ctx, ast.Load)
    ]
    return not uses or any(id(use) not in anchored for use in uses)
