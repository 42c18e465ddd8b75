"""What calls take and don't give back has a name: in the gauges, at the end of the process, and after a test."""

import logging
import re
from pathlib import Path

import pytest
from rig.call_stages import call_at, make_dependencies
from rig.configuration import ROOT
from rig.gateway_in_use import find_left as find_left_after_test
from rig.in_flight_calls import KEY, load_acme_and_other

from addon.calls.request_id import make_request_ids
from addon.gateway.in_use import OF_THE_PROCESS, RESOURCES, Process, find_left, read_in_use
from addon.gateway.lifecycle import Lifecycle
from policies.call_stages import Stage

ALL = (*RESOURCES, *OF_THE_PROCESS)


async def test_what_a_call_takes_is_in_use_until_it_ends(tmp_path: Path) -> None:
    deps = make_dependencies(load_acme_and_other(tmp_path), tmp_path / "tollgate.db")
    process = Process(deps, list, lambda: 0)
    at_rest = read_in_use(process)
    assert set(at_rest.values()) == {0}
    call = await call_at(Stage.HELD, deps, KEY)
    body_bytes = call.counted_bytes
    taken = {"calls": 1, "workspace_calls": 1, "body_bytes": body_bytes, "workspace_body_bytes": body_bytes}
    assert find_left(process) == taken
    await deps.in_flight.abandon(call)
    await deps.in_flight.close()
    assert read_in_use(process) == at_rest
    await deps.pool.close()
    await deps.store.close()


async def test_a_process_that_ends_names_what_was_not_given_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lifecycle = Lifecycle(None, load_acme_and_other(tmp_path), make_request_ids())
    call = await call_at(Stage.ADMITTED, lifecycle.deps, KEY)
    lifecycle.deps.bodies.begin(call)
    await lifecycle.deps.in_flight.abandon(call)
    await lifecycle.stop()
    [line] = [one for one in caplog.records if one.name == "tollgate.lifecycle"]
    assert (line.levelno, line.__dict__["event"]) == (logging.ERROR, "not given back")
    assert line.__dict__["in_use"] == {"bodies_being_read": 1}


async def test_a_whole_reading_has_the_tasks_timers_and_files_of_the_process(tmp_path: Path) -> None:
    deps = make_dependencies(load_acme_and_other(tmp_path), tmp_path / "tollgate.db")
    found = read_in_use(Process(deps, list, lambda: 0), whole=True)
    assert found["tasks"] >= 1
    assert found["descriptors"] > 3
    assert found["timers"] == 0
    assert found.keys() == {one.name for one in ALL}
    await deps.pool.close()
    await deps.store.close()


def test_a_connection_that_is_open_may_have_its_share_and_nothing_more() -> None:
    rest = {one.name: 0 for one in ALL}
    start = rest | {"tasks": 12, "descriptors": 23}
    assert find_left_after_test(start, start) == {}
    busy = start | {"client_connections": 2, "idle_connections": 1}
    assert find_left_after_test(busy | {"tasks": 18, "timers": 6, "descriptors": 29}, start) == {}
    assert find_left_after_test(busy | {"tasks": 19, "timers": 7, "descriptors": 30}, start) == {
        "tasks": 1,
        "timers": 1,
        "descriptors": 1,
    }
    assert find_left_after_test(start | {"workspace_places": 3}, start) == {"workspace_places": 3}


def test_each_resource_is_documented_and_those_that_may_stay_have_a_star() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    section = page.split("\n## What is taken and given back\n")[1].split("\n## ")[0]
    first_cells = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")][1:]
    named = re.findall(r"`(\w+)`( \*)?", " ".join(first_cells))
    assert [(name, bool(star)) for name, star in named] == [(one.name, one.may_stay) for one in ALL]
