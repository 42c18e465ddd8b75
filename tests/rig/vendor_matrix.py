"""The matrix of models and calls: what the gateway would send, held against the strict vendor.

``PYTHONPATH=.:tests .venv/bin/python -m rig.vendor_matrix [WORD …]`` prints its counts for each provider, and each
refusal by a vendor. Words choose providers, or slugs that contain them.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from policies.model import Model
from policies.refusal import Refusal
from rig.built_requests import active_models, build
from rig.vendor_cases import CASES, Case
from rig.vendors import VENDORS, find_vendor
from rig.vendors.rules import find_refusal

Result = Literal["accepted", "refused here", "refused there"]
RESULTS: tuple[Result, ...] = ("accepted", "refused here", "refused there")

NOT_YET = frozenset({"Requests with max_tokens > 4096 must have stream=true"})
"""What vendors refuse until whole answers are put together from streamed calls."""


@dataclass(frozen=True)
class Cell:
    """One call of one model. ``why`` is the message of the refusal, ``source`` that of the vendor's rule."""

    provider: str
    model: str
    case: str
    result: Result
    why: str = ""
    source: str = ""


def hold(model: Model, case: str, calls: Mapping[str, Case] = CASES) -> Cell:
    """Hold one of ``calls`` of a model against its vendor."""
    name = model.provider.name
    vendor = VENDORS[name]
    made = build({"model": model.slug, **calls[case](vendor.window_of(model.upstream_model_id))})
    if isinstance(made, Refusal):
        return Cell(name, model.slug, case, "refused here", made.message)
    found = find_refusal(find_vendor(name, made.path), made.path, json.loads(made.content))
    if found is None:
        return Cell(name, model.slug, case, "accepted")
    return Cell(name, model.slug, case, "refused there", found.message, found.rule.source)


def hold_all(model: Model, cases: Iterable[str] = CASES) -> Iterator[Cell]:
    """Hold each of the calls of a model against its vendor."""
    return (hold(model, case) for case in cases)


def faults(cells: Iterable[Cell]) -> list[Cell]:
    """Return the calls that neither side should have let happen: the gateway sends what the vendor refuses."""
    return [cell for cell in cells if cell.result == "refused there" and cell.why not in NOT_YET]


def counts(cells: Iterable[Cell]) -> str:
    """Return the table of counts: a line a provider, and their sum."""
    found = Counter((place, cell.result) for cell in cells for place in (cell.provider, "all"))
    lines = ["".join([f"{'':16}", *(f"{result:>15}" for result in RESULTS)])]
    for place in dict.fromkeys(place for place, _ in found if place != "all"), ("all",):
        lines += [
            "".join([f"{one:16}", *(f"{found[one, result]:>15}" for result in RESULTS)]) for one in place
        ]
    return "\n".join(lines)


def main(words: list[str]) -> None:
    models = [
        one
        for one in active_models()
        if not words or any(word == one.provider.name or word in one.slug for word in words)
    ]
    cells = [cell for model in models for cell in hold_all(model)]
    for cell in cells:
        if cell.result == "refused there":
            print(f"{cell.model}: {cell.case}: {cell.why} ({cell.source})")
    print(counts(cells))


if __name__ == "__main__":
    main(sys.argv[1:])
