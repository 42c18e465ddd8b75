"""``load_toml`` reads what ``tomllib`` reads, in linear time, or says in which line a text has too much."""

import sys
import tomllib
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.configuration import ROOT
from rig.large import sampled

from addon.text.toml import MAX_DEPTH, MAX_KEY_PARTS, TomlError, find_statements, load_toml

PARTS = ".".join(["a"] * MAX_KEY_PARTS)
NEST = "[" * (MAX_DEPTH + 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"x = 1\n{PARTS}.a = 1", "a key has more than 16 parts (at line 2)"),
        (f"x = 1\n\n[{PARTS}.a]", "a key has more than 16 parts (at line 3)"),
        (f"[[{PARTS}.a]]", "a key has more than 16 parts (at line 1)"),
        (f"x = [1,\n{{ {PARTS} . 'b' = 1 }}]", "a key has more than 16 parts (at line 2)"),
        (f'"a.b"{"." + PARTS} = 1', "a key has more than 16 parts (at line 1)"),
        ("a." * 50_000 + "a = 1", "a key has more than 16 parts (at line 1)"),
        (f"x = [1,\n{NEST}{NEST.replace('[', ']')}]", "nested too deeply (at line 2)"),
        ("[" * 300_000, "Invalid initial character for a key part (at line 1, column 3)"),
        ("y = 1\nx = " + "[" * 300_000, "nested too deeply (at line 2)"),
        ("x = " + "{a=" * 300_000, "nested too deeply (at line 1)"),
        ("y = 1\nx = 9223372036854775808", "an integer has more than 64 bits (at line 2)"),
        ("x = -9223372036854775809", "an integer has more than 64 bits (at line 1)"),
        ("y = 1\n\nx = [0x" + "f" * 300_000 + "]", "an integer has more than 64 bits (at line 3)"),
        ("y = 1\nx = " + "9" * 5_000, "an integer has more than 64 bits (at line 2)"),
        ("x = " + "1_" * 5_000 + "1", "an integer has more than 64 bits (at line 1)"),
        ("x = 1\nx = 2\ny = 3", "Cannot overwrite a value (at line 2, column 6)"),
        ('x = """' + 'a"' * 100_000, "Unterminated string"),
    ],
)
def test_a_text_with_too_much_is_refused_with_its_line(text: str, reason: str):
    with pytest.raises(TomlError) as refused:
        load_toml(text)
    assert str(refused.value).startswith(reason)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    "text",
    [
        f"{PARTS} = 1",
        f"[{PARTS}]\n{PARTS} = 1",
        "x = " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1),
        f'x = "{PARTS}.b.c"  # {PARTS}.b.c',
        f"x = '''\n{PARTS}.b.c = 1\n'''",
        f'x = """\n\\"""{PARTS}.b.c = "1""""',
        "x = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5]",
        "x = [9223372036854775807, -9223372036854775808, 0x7fffffffffffffff, 1e400]",
        "a = 1\r\n[b]\r\nc = 2\r\n",
        "",
    ],
)
def test_what_is_allowed_reads_as_tomllib_reads_it(text: str):
    assert load_toml(text) == tomllib.loads(text)


def _count_lines(work: Callable[[], Any]) -> int:
    """Return how many lines of Python some work runs."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        work()
    except TomlError:
        pass
    finally:
        sys.settrace(None)
    return count


SHAPES: dict[str, Callable[[int], str]] = {
    "dotted keys": lambda size: "\n".join(f"{PARTS[:-2]}.b{number} = 1" for number in range(size)),
    "one dotted key": lambda size: "a." * size + "a = 1",
    "headers": lambda size: "\n".join(f"[{PARTS[:-2]}.b{number}]" for number in range(size)),
    "tables of an array": lambda size: "[[a]]\n" * size,
    "same keys": lambda size: "a = 1\n" * size,
    "comments": lambda size: "# ]\n" * size,
    "comments in an array": lambda size: "x = [\n" + "# ]\n" * size + "]",
    "signs in a text": lambda size: 'x = "' + "#" * size + '"',
    "quotes in a text": lambda size: 'x = """' + '""a' * size + '"""',
    "escapes": lambda size: 'x = "' + "\\n" * size + '"',
    "an open text": lambda size: 'x = """' + 'a"' * size,
    "an array": lambda size: "x = [" + "1, " * size + "]",
    "deep arrays": lambda size: "x = " + "[" * size,
    "line ends": lambda size: "\r\n" * size,
    "zero bytes": lambda size: "\0" * size,
}


@sampled(every=5)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("read", [load_toml, lambda text: list(find_statements(text))])
def test_twice_the_text_takes_twice_the_steps(shape: str, read: Callable[[str], object]):
    once, twice = (_count_lines(lambda: read(SHAPES[shape](size))) for size in (400, 800))  # noqa: B023
    assert twice < 2.2 * once + 3_000


@given(st.text(alphabet="ab.=[]{}\"'#,\n\\ 1", max_size=40))
def test_statements_are_those_of_the_text(text: str):
    try:
        expected = load_toml(text)
    except TomlError:
        list(find_statements(text))
        return
    kept = "\n".join(text[start:end] for start, end in find_statements(text))
    assert load_toml(kept) == expected


def test_only_one_module_reads_toml():
    users = [
        str(path.relative_to(ROOT))
        for package in ("addon", "policies")
        for path in (ROOT / package).rglob("*.py")
        if "import tomllib" in path.read_text(encoding="utf-8")
    ]
    assert users == ["addon/text/toml.py"]
