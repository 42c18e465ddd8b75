"""No test fails because the machine is slow: ``BOUND_S`` is the only bound of a wait in the tests."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from rig.bounds import BOUND_S

FOLDER = Path(__file__).resolve().parents[1]
WAITS = {"wait", "wait_for", "join", "result", "communicate", "timeout", "timeout_at"}
"""Functions whose last argument, if it is a number, is a wait in seconds."""
HTTPX = {
    "get",
    "post",
    "put",
    "patch",
    "delete",
    "head",
    "options",
    "request",
    "stream",
    "Client",
    "AsyncClient",
}


def _waits_for_a_number(call: ast.Call, name: str) -> bool:
    given = [word.value for word in call.keywords if word.arg == "timeout"]
    if name in WAITS:
        given += call.args[-1:]
    return any(
        isinstance(one, ast.Constant) and type(one.value) in (int, float) and one.value for one in given
    )


def _is_httpx_without_bound(call: ast.Call) -> bool:
    made = call.func
    return (
        isinstance(made, ast.Attribute)
        and isinstance(made.value, ast.Name)
        and made.value.id == "httpx"
        and made.attr in HTTPX
        and "timeout" not in {word.arg for word in call.keywords}
    )


def impatient_lines(source: str) -> Iterator[int]:
    """Return the lines with their own number of seconds, or with the default timeout of httpx."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if _waits_for_a_number(node, name) or _is_httpx_without_bound(node):
                yield node.lineno


def test_every_wait_has_the_common_bound() -> None:
    # A simulation has its own clock.
    paths = [path for path in FOLDER.rglob("*.py") if not path.name.startswith("test_simulation_")]
    files = {path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    found = [f"tests/{name}:{line}" for name, source in files.items() for line in impatient_lines(source)]
    assert found == [], f"a slow machine would fail there; wait for rig.bounds.BOUND_S, {BOUND_S} s"


IMPATIENT = [
    "httpx.get(url)",
    "httpx.Client(timeout=20)",
    "OpenAI(timeout=20.5)",
    "thread.join(5)",
    "process.communicate(timeout=60)",
    "asyncio.timeout(3)",
    "asyncio.wait_for(call(), 3)",
]
PATIENT = [
    "httpx.get(url, timeout=BOUND_S)",
    "sqlite3.connect(path, timeout=0)",
    "process.wait(BOUND_S)",
    "', '.join(names)",
    "future.result()",
]


@pytest.mark.parametrize("source", IMPATIENT)
def test_a_wait_with_another_bound_is_found(source: str) -> None:
    assert list(impatient_lines(source)) == [1]


@pytest.mark.parametrize("source", PATIENT)
def test_a_wait_with_the_common_bound_is_accepted(source: str) -> None:
    assert list(impatient_lines(source)) == []


def test_no_property_has_a_deadline() -> None:
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check
