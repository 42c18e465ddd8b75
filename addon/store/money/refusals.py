"""The step that counts refused calls. Source: docs/ledger.md."""

from collections.abc import Sequence

from addon.store.money.engine import Engine, Last, Step
from addon.store.money.refusal_counts import RefusalBatch


def record_refusals(batches: Sequence[RefusalBatch], engine: Engine) -> Step[list[None]]:
    """Add batches to the table ``refusals``, each once."""
    noted = yield [engine.note_batch(one.id) for one in batches]
    new = [one for one, rows in zip(batches, noted, strict=True) if rows]
    counts = [(*group, count) for one in new for group, count in one.counts.items()]
    if counts:
        yield Last(engine.count_refusals(counts))
    return [None] * len(batches)
