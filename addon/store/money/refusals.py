"""The step that counts refused calls. Source: docs/ledger.md."""

from collections.abc import Iterable, Mapping, Sequence

from addon.store.money.engine import COUNTED_APIS, Engine, Last, Step
from addon.store.money.refusal_counts import RefusalBatch, RefusalGroup


def record_refusals(batches: Sequence[RefusalBatch], engine: Engine) -> Step[list[None]]:
    """Add batches to the table ``refusals``, each once."""
    noted = yield [engine.note_batch(one.id) for one in batches]
    rows = _add_up([one.counts for one, found in zip(batches, noted, strict=True) if found])
    if rows:
        yield Last(engine.count_refusals(rows))
    return [None] * len(batches)


def _add_up(batches: Iterable[Mapping[RefusalGroup, int]]) -> list[tuple[str | int, ...]]:
    """Return the rows of ``REFUSALS``: the groups that differ by their API alone are one."""
    sums: dict[tuple[str, ...], list[int]] = {}
    for counts in batches:
        for (*key, api), count in counts.items():
            row = sums.setdefault(tuple(key), [0] * (1 + len(COUNTED_APIS)))
            row[0] += count
            if api in COUNTED_APIS:
                row[1 + COUNTED_APIS.index(api)] += count
    return [(*key, *row) for key, row in sums.items()]
