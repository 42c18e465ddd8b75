"""The queue of alerts: bounded, each event once, with its marks in one transaction."""

from collections.abc import Iterator

import pytest

from addon.store.money import alerts as queue
from addon.store.money.alerts import NewAlert
from addon.store.money.ledger import Ledger, LedgerPlace

EARLY, LATE = "2026-11-22T12:00:00.000+00:00", "2026-11-23T12:00:01.000+00:00"


@pytest.fixture
def ledger(place: LedgerPlace) -> Iterator[Ledger]:
    with place.write() as writing:
        yield writing


def alert(name: str, at: str = EARLY) -> NewAlert:
    return NewAlert(name, at, "test", "acme", "It is a test.", "{}")


def statuses(ledger: Ledger) -> dict[str, str]:
    return dict(ledger.execute("SELECT id, status FROM alerts ORDER BY rowid").fetchall())


def test_an_event_is_queued_once_with_its_mark(ledger: Ledger) -> None:
    for marks in ({"budget acme wallet": "80 1 x"}, {"budget acme wallet": "95 1 x"}):
        new, dropped = queue.enqueue(ledger, [alert("evt_1")], marks, is_sent=True)
    assert (new, dropped) == ([], [])
    assert queue.read_marks(ledger) == {"budget acme wallet": "95 1 x"}
    assert queue.count_waiting(ledger) == 1
    queue.enqueue(ledger, [], {"budget acme wallet": None}, is_sent=True)
    assert queue.read_marks(ledger) == {}


def test_without_a_webhook_events_are_kept_but_do_not_wait(ledger: Ledger) -> None:
    queue.enqueue(ledger, [alert("evt_1")], {}, is_sent=False)
    assert statuses(ledger) == {"evt_1": "unsent"}
    assert queue.find_due(ledger, LATE, 10) == []


def test_an_alert_is_due_again_after_its_back_off_and_dropped_when_it_is_too_old(
    ledger: Ledger,
) -> None:
    queue.enqueue(ledger, [alert("old"), alert("new", LATE)], {}, is_sent=True)
    assert [one.id for one in queue.find_due(ledger, LATE, 10)] == ["old", "new"]
    queue.note_failed(ledger, "old", "500", "2026-11-23T12:00:02.000+00:00")
    assert [one.id for one in queue.find_due(ledger, LATE, 10)] == ["new"]
    [dropped] = queue.drop_old(ledger, "2026-11-22T12:00:00.001+00:00", LATE)
    assert (dropped.id, dropped.attempts) == ("old", 1)
    queue.note_sent(ledger, "new", LATE, "204")
    assert statuses(ledger) == {"old": "dropped", "new": "sent"}
    listed = queue.list_alerts(ledger, 10).records()
    assert [(one["id"], one["attempts"], one["answer"]) for one in listed] == [
        ("new", 1, "204"),
        ("old", 1, "500"),
    ]


def test_only_the_named_alert_is_dropped_and_only_if_it_is_old(ledger: Ledger) -> None:
    queue.enqueue(ledger, [alert("one"), alert("two"), alert("new", LATE)], {}, is_sent=True)
    before = "2026-11-22T12:00:00.001+00:00"
    assert queue.drop_old(ledger, before, LATE, "new") == []
    assert [one.id for one in queue.drop_old(ledger, before, LATE, "two")] == ["two"]
    assert statuses(ledger) == {"one": "waiting", "two": "dropped", "new": "waiting"}


def test_the_queue_and_what_is_kept_of_it_are_bounded(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "MAX_WAITING", 3)
    monkeypatch.setattr(queue, "MAX_ENDED", 2)
    new, dropped = queue.enqueue(ledger, [alert(str(number)) for number in range(5)], {}, is_sent=True)
    assert ([one.id for one in new], [one.id for one in dropped]) == (["0", "1", "2", "3", "4"], ["3", "4"])
    queue.enqueue(ledger, [alert("5", LATE)], {}, is_sent=True)
    assert queue.count_waiting(ledger) == 3
    assert sorted(statuses(ledger).values()) == ["dropped", "dropped", "waiting", "waiting", "waiting"]


def test_alerts_that_can_not_all_be_queued_are_not_queued(place: LedgerPlace) -> None:
    with pytest.raises(ZeroDivisionError), place.write() as ledger:
        queue.enqueue(ledger, (alert(f"evt_{1 // one}") for one in (1, 0)), {}, is_sent=True)
    with place.read() as ledger:
        assert statuses(ledger) == {}
