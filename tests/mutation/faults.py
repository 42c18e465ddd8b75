"""Which small faults a module can have. Each is one change of its syntax tree."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType

OTHER_COMPARISON: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OTHER_OPERATOR: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
OTHER_FUNCTION = {"min": "max", "max": "min", "any": "all", "all": "any"}
_DECLARATIONS = {"annotation", "returns", "type_params", "type_comment", "decorator_list"}

type Change = tuple[int, str, str, Callable[[], None]]
"""The line, the source before, the source after, and what makes the change in the tree."""


@dataclass(frozen=True)
class Fault:
    """One fault: the ``number``-th change of the module ``path``.

    ``scope`` is the function or class around it. ``function_line`` is the first line of that function, and 0 outside
    of functions.
    """

    path: str
    number: int
    line: int
    scope: str = ""
    function_line: int = 0
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        """Return the fault as one line of a report."""
        return f"{self.path}:{self.line} {self.description}"

    @property
    def description(self) -> str:
        """What is changed, and in which function or class."""
        return f"{self.scope}: {self.before} -> {self.after}"

    @property
    def name(self) -> tuple[str, str]:
        """What the fault is known by after lines were added before it: path and description."""
        return self.path, self.description


def find_faults(path: str, source: str) -> list[Fault]:
    """Return all faults that the module can have, in the order of its syntax tree."""
    tree = ast.parse(source)
    scopes = _scopes(tree)
    return [
        Fault(path, number, line, *scopes.get(line, ("module", 0)), before, after)
        for number, (line, before, after, _) in enumerate(_changes(tree))
    ]


def faulty_tree(source: str, number: int) -> ast.Module:
    """Return the syntax tree of the module with the fault of this number in it."""
    tree = ast.parse(source)
    for index, (_, _, _, make) in enumerate(_changes(tree)):
        if index == number:
            make()
            return ast.fix_missing_locations(tree)
    raise ValueError(f"the module has no fault {number}")


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code objects inside this one, at every depth."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from nested_codes(constant)


def _scopes(tree: ast.Module) -> dict[int, tuple[str, int]]:
    """Return the innermost function or class of each line, with the first line of the function."""
    scopes: dict[int, tuple[str, int]] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name, body = f"{prefix}{child.name}", range(child.lineno, (child.end_lineno or 0) + 1)
                scopes.update(dict.fromkeys(body, (name, 0)))
                if not isinstance(child, ast.ClassDef):
                    # The values of parameters are made outside of the function.
                    own = range(child.body[0].lineno, body.stop)
                    scopes.update(dict.fromkeys(own, (name, child.lineno)))
                inner = f"{name}."
            visit(child, inner)

    visit(tree, "")
    return scopes


def _changes(tree: ast.Module) -> Iterator[Change]:
    for node in _mutable_nodes(tree):
        for before, after, make in _node_changes(node):
            yield getattr(node, "lineno", 0), before, after, make
        for block in ("body", "orelse", "finalbody"):
            statements = getattr(node, block, None)
            if isinstance(statements, list):
                yield from _statement_changes(statements)


def _mutable_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but declarations: annotations, options of classes and fields, and texts for people."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in _DECLARATIONS or (isinstance(node, ast.ClassDef) and name == "keywords"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_for_readers(child):
                yield from _mutable_nodes(child)


def _is_for_readers(node: ast.AST) -> bool:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.TypeAlias() | ast.Import() | ast.ImportFrom():
            return True
        case ast.FunctionDef(name="__repr__" | "__str__") | ast.Assert() | ast.JoinedStr():
            return True
        case ast.Call(func=ast.Name(id="TypeVar" | "cast" | "NewType" | "field")):
            return True
    return False


def _node_changes(node: ast.AST) -> Iterator[tuple[str, str, Callable[[], None]]]:
    match node:
        case ast.Compare(ops=[op, *_]) if type(op) in OTHER_COMPARISON:
            yield _replacing(node, "ops", [OTHER_COMPARISON[type(op)](), *node.ops[1:]])
        case ast.BoolOp(op=op):
            yield _replacing(node, "op", ast.And() if isinstance(op, ast.Or) else ast.Or())
        case ast.BinOp(op=op) if type(op) in OTHER_OPERATOR:
            yield _replacing(node, "op", OTHER_OPERATOR[type(op)]())
        case ast.AugAssign(op=op) if type(op) in OTHER_OPERATOR:
            yield _replacing(node, "op", OTHER_OPERATOR[type(op)]())
        case ast.Constant(value=bool() as value):
            yield _replacing(node, "value", not value)
        case ast.Constant(value=int() as value):
            yield _replacing(node, "value", value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in OTHER_FUNCTION:
            yield _replacing(node, "func", ast.Name(OTHER_FUNCTION[name], ast.Load()))
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if _is_plain(test):
            yield _replacing(node, "test", _negated(test))
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            yield _replacing(node, "value", ast.Constant(None))


def _is_plain(test: ast.expr) -> bool:
    """Tell whether no other fault already turns this condition around."""
    return not isinstance(test, ast.Compare | ast.Constant | ast.BoolOp)


def _negated(test: ast.expr) -> ast.expr:
    return (
        test.operand
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        else ast.UnaryOp(ast.Not(), test)
    )


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _replacing(node: ast.AST, field: str, value: object) -> tuple[str, str, Callable[[], None]]:
    before = _text(node)
    kept = getattr(node, field)
    setattr(node, field, value)
    after = _text(ast.fix_missing_locations(node))
    setattr(node, field, kept)
    return before, after, lambda: setattr(node, field, value)


def _text(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0][:100]


def _statement_changes(block: list[ast.stmt]) -> Iterator[Change]:
    """Yield a fault for each statement whose only use is its effect: it is left out."""
    for index, statement in enumerate(block):
        if _has_effect(statement):
            other: ast.stmt = ast.Pass()
            if isinstance(statement, ast.Break | ast.Continue):
                other = ast.Continue() if isinstance(statement, ast.Break) else ast.Break()
            yield statement.lineno, _text(statement), _text(other), _putting(block, index, other)


def _has_effect(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.Break() | ast.Continue():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]) | ast.AugAssign() | ast.Delete():
            return True
    return False


def _putting(block: list[ast.stmt], index: int, other: ast.stmt) -> Callable[[], None]:
    def put() -> None:
        block[index] = ast.copy_location(other, block[index])

    return put
