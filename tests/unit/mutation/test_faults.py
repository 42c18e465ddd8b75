"""Which faults each construct of the language can have."""

import pytest
from mutation.faults import faulty_tree, find_faults


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        ("x = a < 1", ["a <= 1", "2"]),
        ("x = a and not b", ["a or not b"]),
        ("x = min(a, b) + c", ["min(a, b) - c", "max(a, b)"]),
        ("if a:\n    b()", ["if not a:", "pass"]),
        ("def f() -> bool:\n    return True", ["return None", "False"]),
        ("while a:\n    break", ["while not a:", "continue"]),
        ("def f(a: int = 1) -> None:\n    'doc 1'\n    return None", ["2"]),
        ("a.b = 1\ndel a.b", ["2", "pass", "pass"]),
        ("x = f'{a + 1}'", []),
        ("class A(Struct, frozen=True):\n    a: int = 1\n    b: int = field(init=False)", ["2"]),
    ],
)
def test_each_construct_has_its_faults(source: str, faults: list[str]) -> None:
    found = find_faults("module.py", source)
    assert sorted(fault.after for fault in found) == sorted(faults)
    for fault in found:
        compile(faulty_tree(source, fault.number), "module.py", "exec")


def test_a_default_value_is_outside_of_its_function() -> None:
    found = find_faults("module.py", "def f(\n    a: int = 1,\n) -> int:\n    return a + 2\n")
    assert {(fault.before, fault.function_line) for fault in found} == {
        ("1", 0),
        ("return a + 2", 1),
        ("a + 2", 1),
        ("2", 1),
    }
