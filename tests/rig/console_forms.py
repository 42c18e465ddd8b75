"""The forms of the console, as a client without a browser sends them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from rig.bounds import BOUND_S
from rig.gateway import Gateway

PASSWORD = "correct-horse-battery-staple"
"""The password of the console, in the variable ``CONSOLE_PASSWORD`` of the gateway."""

SECTIONS = {"admin": {"console_password": "env:CONSOLE_PASSWORD"}}
ENVIRONMENT = {"CONSOLE_PASSWORD": PASSWORD}


@contextmanager
def log_in(gateway: Gateway) -> Iterator[httpx.Client]:
    """Give a client with a session of its own."""
    with httpx.Client(base_url=gateway.admin_url, timeout=BOUND_S, trust_env=False) as client:
        client.post("/login", data={"_xsrf": form_token(client.get("/login")), "password": PASSWORD})
        yield client


def form_token(page: httpx.Response) -> str:
    found = re.search(r'name="_xsrf" value="([^"]+)"', page.text)
    assert found, page.text
    return found[1]


def send(console: httpx.Client, path: str, **typed: str) -> httpx.Response:
    """Send a form of the page ``path``, and follow to the page with its difference."""
    data = {"_xsrf": form_token(console.get(path)), **typed}
    return console.post(path, data=data, follow_redirects=True)


def token_of(page: httpx.Response) -> str:
    found = re.search(r'name="token" value="([^"]+)"', page.text)
    assert found, page.text
    return found[1]


def confirm(console: httpx.Client, path: str, shown: httpx.Response) -> httpx.Response:
    return console.post(path, data={"_xsrf": form_token(shown), "token": token_of(shown)})
