"""A lint for slow regular expressions, and texts that make them slow.

The time must be in proportion to the length of the text. Two forms break this: two unbounded repeats that can share a
run of characters, and a search that fails inside a run and starts again at the next character of the run.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from re import _constants as c  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

UNBOUNDED = 1_000
"""A repeat with this bound or a higher one counts as unbounded."""

# All characters that the expressions distinguish: one byte, and some letters, marks, spaces and signs beyond.
_ALPHABET = [*range(256), 0x300, 0x416, 0x2003, 0x2022, 0x2026, 0x2028, 0x3042, 0x4E00, 0xFEFF, 0x1F600]


# --- the lint ----------------------------------------------------------------------------------------------------

type Chars = frozenset[int]
type Fits = Callable[[Chars], bool]
"""Returns whether a required character can be inside a run of these characters."""


@dataclass
class _Walk:
    """One pass over an expression that collects its ``faults``."""

    flags: int
    searches: bool
    is_text: bool
    faults: list[str] = field(default_factory=list)
    guard: Chars = frozenset()
    """No match begins after one of these."""
    anchored: bool = False

    def walk(
        self, nodes: Sequence[Any], tails: list[Chars], before: list[Fits], *, may_fail: bool
    ) -> list[Chars]:
        """Return the unbounded repeats that can end where ``nodes`` end; ``tails`` can end where they begin.

        ``before`` are the requirements before them. ``may_fail`` is true if the rest of the expression may not match.
        """
        before = list(before)
        for at, (op, value) in enumerate(nodes):
            fails_later = may_fail or any(map(can_fail, nodes[at + 1 :]))
            tails = self.step(op, value, tails, before, may_fail=fails_later)
            before += self.demands(op, value)
        return tails

    def step(
        self, op: Any, value: Any, tails: list[Chars], before: list[Fits], *, may_fail: bool
    ) -> list[Chars]:
        if op in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
            chars = self.chars(op, value)
            return [tail for tail in tails if tail & chars]
        if op is c.SUBPATTERN:
            return self.walk(value[3], tails, before, may_fail=may_fail)
        if op is c.BRANCH:
            ends = [self.walk(branch, tails, before, may_fail=may_fail) for branch in value[1]]
            return list(dict.fromkeys(tail for end in ends for tail in end))
        if op in (c.ASSERT, c.ASSERT_NOT):
            if value[0] > 0:
                self.walk(value[1], tails, before, may_fail=True)
            elif op is c.ASSERT_NOT and not before:
                self.guard = self.all_chars(value[1])
            return tails
        if op is c.AT:
            self.stand_at(value, before)
            return tails
        if op is c.ATOMIC_GROUP:
            self.walk(value, tails, before, may_fail=may_fail)
            return [] if can_fail((op, value)) else tails
        if op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            return self.repeat(op, value, tails, before, may_fail=may_fail)
        raise AssertionError(f"the lint does not know {op}")

    def stand_at(self, where: Any, before: list[Fits]) -> None:
        if not before and where in (c.AT_BEGINNING, c.AT_BEGINNING_STRING) and not self.flags & re.MULTILINE:
            self.anchored = True
        if not before and where is c.AT_BOUNDARY:
            self.guard = self.category(c.CATEGORY_WORD)

    def repeat(
        self, op: Any, value: Any, tails: list[Chars], before: list[Fits], *, may_fail: bool
    ) -> list[Chars]:
        least, most, body = value
        after = self.walk(body, tails, before, may_fail=may_fail)
        if most < UNBOUNDED:
            if most > 1:
                after = self.walk(body, after, before, may_fail=may_fail)
            after = [] if op is c.POSSESSIVE_REPEAT else after
            return after if least else [*tails, *after]
        chars = self.all_chars(body)
        demanded = self.demands_of(body)
        if any(tail & chars and all(fits(tail) for fits in demanded) for tail in tails):
            self.faults.append("two unbounded repeats share characters and touch")
        if op is not c.POSSESSIVE_REPEAT and not is_fixed(body, self):
            self.faults.append("what an unbounded repeat repeats may match in more than one way")
        retries = self.searches and may_fail and not self.anchored and not chars <= self.guard
        if retries and all(fits(chars) for fits in before):
            self.faults.append("a search begins again inside an unbounded repeat")
        kept = [] if least else tails
        return kept if op is c.POSSESSIVE_REPEAT else [*kept, chars]

    def demands(self, op: Any, value: Any) -> list[Fits]:
        """Return the characters that a node requires."""
        if op in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
            chars = self.chars(op, value)
            return [lambda run: bool(run & chars)]
        if op is c.SUBPATTERN:
            return self.demands_of(value[3])
        if op is c.ATOMIC_GROUP:
            return self.demands_of(value)
        if op is c.BRANCH:
            branches = [self.demands_of(branch) for branch in value[1]]
            return [lambda run: any(all(fits(run) for fits in branch) for branch in branches)]
        if op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT) and value[0]:
            return self.demands_of(value[2])
        return []

    def demands_of(self, nodes: Sequence[Any]) -> list[Fits]:
        return [fits for node in nodes for fits in self.demands(*node)]

    def all_chars(self, nodes: Sequence[Any]) -> Chars:
        """Return all characters that a match of ``nodes`` may contain."""
        found: set[int] = set()
        for op, value in nodes:
            if op in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
                found |= self.chars(op, value)
            elif op is c.BRANCH:
                found |= frozenset().union(*map(self.all_chars, value[1]))
            elif op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
                found |= self.all_chars(value[2])
            elif op in (c.SUBPATTERN, c.ATOMIC_GROUP):
                found |= self.all_chars(value[3] if op is c.SUBPATTERN else value)
        return frozenset(found)

    def chars(self, op: Any, value: Any) -> Chars:
        if op is c.LITERAL:
            return self.folded(value)
        if op is c.NOT_LITERAL:
            return frozenset(_ALPHABET) - self.folded(value)
        if op is c.ANY:
            return frozenset(_ALPHABET) - (frozenset() if self.flags & re.DOTALL else frozenset({10}))
        found: set[int] = set()
        for kind, item in value:
            if kind is c.LITERAL:
                found |= self.folded(item)
            elif kind is c.RANGE:
                found |= {
                    folded for code in _ALPHABET if item[0] <= code <= item[1] for folded in self.folded(code)
                }
            elif kind is c.CATEGORY:
                found |= self.category(item)
        return frozenset(_ALPHABET) - found if value[0][0] is c.NEGATE else frozenset(found)

    def folded(self, code: int) -> Chars:
        if not self.flags & re.IGNORECASE:
            return frozenset({code})
        return frozenset({code, *map(ord, chr(code).lower()[:1] + chr(code).upper()[:1])})

    def category(self, kind: Any) -> Chars:
        letter = {"WORD": "w", "DIGIT": "d", "SPACE": "s"}[str(kind).rpartition("_")[2]]
        flags = self.flags & re.ASCII if self.is_text else re.ASCII
        one = re.compile(f"\\{letter.upper() if 'NOT' in str(kind) else letter}", flags)
        return frozenset(code for code in _ALPHABET if one.match(chr(code)))


def can_fail(node: tuple[Any, Any]) -> bool:
    """Return whether a node may not match."""
    op, value = node
    if op is c.SUBPATTERN:
        return any(map(can_fail, value[3]))
    if op is c.ATOMIC_GROUP:
        return any(map(can_fail, value))
    if op is c.BRANCH:
        return all(any(map(can_fail, branch)) for branch in value[1])
    if op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
        return bool(value[0])
    return True


def is_fixed(nodes: Sequence[Any], walk: _Walk) -> bool:
    """Return whether ``nodes`` can match at a position in at most one way."""
    for op, value in nodes:
        if op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT) and value[0] != value[1]:
            return False
        if op is c.BRANCH:
            firsts = [walk.all_chars(branch[:1]) for branch in value[1]]
            if any(one & other for one, other in combinations(firsts, 2)):
                return False
        inside = value[1] if op is c.BRANCH else [value[3]] if op is c.SUBPATTERN else []
        if not all(is_fixed(part, walk) for part in inside):
            return False
    return True


def faults_of(pattern: re.Pattern[Any], *, searches: bool) -> list[str]:
    """Return the forms that make an expression slow on some text."""
    walk = _Walk(pattern.flags, searches, isinstance(pattern.pattern, str))
    nodes = list(_parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE & ~re.DEBUG))
    # A match can begin with each alternative.
    branches: Iterable[Any] = nodes[0][1][1] if len(nodes) == 1 and nodes[0][0] is c.BRANCH else [nodes]
    for branch in branches:
        walk.guard, walk.anchored = frozenset(), False
        walk.walk(branch, [], [], may_fail=False)
    return sorted(set(walk.faults))


# --- hostile texts -----------------------------------------------------------------------------------------------

_RUNS = (
    " ",
    "a",
    "0",
    "\n",
    "\r",
    "\t",
    '"',
    '\\"',
    "{",
    "[",
    "<",
    ".",
    "/",
    "*",
    "-",
    "_",
    "\\",
    ": ",
    ", ",
    "=",
)


def hostile_units(pattern: re.Pattern[Any]) -> list[str]:
    """Return texts whose repetition may be slow: common runs, and texts that the expression begins to match."""
    nodes = list(_parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE))
    walk = _Walk(pattern.flags, searches=True, is_text=isinstance(pattern.pattern, str))
    example = "".join(_example(nodes, walk))
    runs = [chr(min(walk.all_chars([node]) or {97})) for node in _repeats(nodes)]
    return list(
        dict.fromkeys(
            unit for unit in (*_RUNS, *runs, example, example[:-1], example[: len(example) // 2]) if unit
        )
    )


def hostile_openings(pattern: re.Pattern[Any]) -> list[str]:
    """Return texts to put before such a run: none, or a text that the expression matches before its repeats."""
    nodes = list(_parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE))
    example = "".join(_example(nodes, _Walk(pattern.flags, searches=True, is_text=True)))
    return ["", *{example[:at] for at in (len(example) - 1, len(example) // 2) if at > 0}]


def _repeats(nodes: Sequence[Any]) -> Iterator[Any]:
    for op, value in nodes:
        if op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            yield op, value
            yield from _repeats(value[2])
        elif op in (c.SUBPATTERN, c.ATOMIC_GROUP):
            yield from _repeats(value[3] if op is c.SUBPATTERN else value)
        elif op is c.BRANCH:
            for branch in value[1]:
                yield from _repeats(branch)


def _example(nodes: Sequence[Any], walk: _Walk) -> Iterator[str]:
    """Yield a text that an expression matches, apart from its assertions."""
    for op, value in nodes:
        if op in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
            chars = walk.chars(op, value)
            yield chr(min(chars & set(b"abcAB01 /.-") or chars or {97}))
        elif op is c.SUBPATTERN:
            yield from _example(value[3], walk)
        elif op is c.ATOMIC_GROUP:
            yield from _example(value, walk)
        elif op is c.BRANCH:
            yield from _example(value[1][0], walk)
        elif op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            yield from [*_example(value[2], walk)] * min(max(value[0], 1), 70)
