"""A key of a workspace whose file is broken: the console says what to do, and that works."""

import re
import shlex
from collections.abc import Iterator
from html import unescape

import httpx
import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.commands import run_alone
from rig.console_forms import ENVIRONMENT, SECTIONS, confirm, log_in, send
from rig.gateway import Gateway
from rig.settings_files import edit

FILE = "policies/workspaces/acme.toml"
MEND, REVOKE = "/changes/workspaces/edit/acme", "/changes/keys/revoke/acme/ci"


@pytest.fixture
def gateway(start_gateway: StartGateway) -> Gateway:
    return start_gateway(sections=SECTIONS, environment=ENVIRONMENT)


@pytest.fixture
def console(gateway: Gateway) -> Iterator[httpx.Client]:
    with log_in(gateway) as client:
        yield client


def wait_until_refused(gateway: Gateway) -> None:
    """Wait until calls with the key are refused."""
    url, headers = f"{gateway.url}/v1/chat/completions", {"Authorization": f"Bearer {gateway.key}"}
    gateway.wait_until(lambda: httpx.post(url, headers=headers, timeout=BOUND_S).status_code == 401)


def test_a_key_of_a_file_with_a_wrong_value_is_revoked(gateway: Gateway, console: httpx.Client) -> None:
    edit(gateway.folder / FILE, "", "\nplan = []\n[other]\n")
    gateway.wait_until(lambda: f'href="{MEND}">Edit the file' in console.get("/workspaces/acme").text)
    refused = console.get("/changes/keys/set/acme/ci")
    assert refused.status_code == 404
    assert f'href="{MEND}"' in refused.text
    assert f'href="{REVOKE}"' in refused.text
    done = confirm(console, REVOKE, send(console, REVOKE))
    assert "The file does not load" in console.get(done.headers["location"]).text
    wait_until_refused(gateway)


def test_a_key_of_a_file_that_is_no_toml_is_revoked_by_the_command(
    gateway: Gateway, console: httpx.Client
) -> None:
    edit(gateway.folder / FILE, "", "\nbroken = [\n")
    gateway.wait_until(
        lambda: "The file of this workspace has an error" in console.get("/workspaces/acme").text
    )
    refused = console.get(REVOKE)
    assert refused.status_code == 404
    assert f'href="{MEND}"' in refused.text
    [command] = re.findall(r"<bdi>(tollgate keys revoke .*?)</bdi>", refused.text)
    program, *arguments = shlex.split(unescape(command))
    ended = run_alone(gateway.folder, *arguments)
    assert program == "tollgate"
    assert "is turned off in the last good settings" in ended.stderr
    wait_until_refused(gateway)
