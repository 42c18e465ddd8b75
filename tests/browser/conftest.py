"""Fixtures of the tests in a real browser: one browser, a gateway with much to show, and one with nothing.

They end with the last test of this folder, because Playwright's event loop runs in the thread of the tests as long as a
browser is open. No test could run a loop of its own there.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from conftest import NO_BROWSER, StartGateway
from rig.axe import axe_source
from rig.browser import Tab, chromium_program, running_chromium
from rig.console_scene import (
    ENVIRONMENT,
    Caller,
    call_in_flight,
    credit_wallet,
    make_calls,
    scene_keys,
    scene_workspaces,
    wait_for_rows,
)
from rig.gateway import Gateway
from rig.links import Site, explore

type OpenTab = Callable[..., Tab]


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """The browser of this process, while it runs tests of this folder."""
    try:
        program = chromium_program()
    except RuntimeError as error:
        pytest.skip(f"{NO_BROWSER}: {error}")
    with running_chromium(program) as started:
        yield started


@pytest.fixture(scope="package")
def axe() -> str | None:
    """The script that finds faults of accessibility. None when it can't be fetched, which one test reports."""
    try:
        return axe_source()
    except RuntimeError:
        return None


@dataclass(frozen=True)
class Console:
    """A running gateway and the pages of its console."""

    gateway: Gateway
    site: Site


@pytest.fixture(scope="package")
def busy(_start_shared_gateway: StartGateway, upstreams: dict[str, Any]) -> Iterator[Console]:
    """A gateway with calls, errors, refusals and a wallet, and with one call in flight. Tests only read it."""
    keys = scene_keys()
    workspaces = scene_workspaces(keys)
    gateway = _start_shared_gateway(keys=keys, workspaces=workspaces, environment=ENVIRONMENT)
    credit_wallet(gateway)
    caller = Caller(gateway)
    make_calls(caller, upstreams["TESTER"])
    wait_for_rows(gateway, caller)
    with call_in_flight(caller, upstreams["TESTER"]):
        yield Console(gateway, explore(gateway.admin_url))
    caller.close()


@pytest.fixture(scope="package")
def empty(_start_shared_gateway: StartGateway, tmp_path_factory: pytest.TempPathFactory) -> Console:
    """A gateway without workspaces and calls."""
    folder = tmp_path_factory.mktemp("empty")
    (folder / "policies" / "workspaces").mkdir(parents=True)
    gateway = _start_shared_gateway(folder, workspaces={})
    return Console(gateway, explore(gateway.admin_url))


@pytest.fixture(scope="package", params=["busy", "empty"])
def console(request: pytest.FixtureRequest) -> Console:
    """The gateway with much to show, then the one with nothing."""
    found: Console = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="package")
def script_tab(browser: Any, console: Console) -> Iterator[Tab]:
    """A tab for pages that are only looked at."""
    with closing(Tab(browser, console.gateway.admin_url)) as tab:
        yield tab


@pytest.fixture(scope="package")
def plain_tab(browser: Any, console: Console) -> Iterator[Tab]:
    """A tab without JavaScript for pages that are only looked at."""
    with closing(Tab(browser, console.gateway.admin_url, with_script=False)) as tab:
        yield tab


@pytest.fixture
def open_tab(browser: Any) -> Iterator[OpenTab]:
    """Open a tab with ``open_tab(gateway, with_script=False)``. It closes with the test."""
    tabs: list[Tab] = []

    def open_one(gateway: Gateway, **options: Any) -> Tab:
        tabs.append(Tab(browser, gateway.admin_url, **options))
        return tabs[-1]

    yield open_one
    for tab in tabs:
        tab.close()
