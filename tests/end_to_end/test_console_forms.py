"""The forms of workspaces, rules and own keys in a real gateway, filled in as a browser does."""

import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from time import monotonic, sleep
from typing import Any, override

import httpx
import pytest
from conftest import StartGateway
from cryptography.fernet import Fernet
from rig.bounds import BOUND_S
from rig.gateway import Gateway
from rig.settings_files import edit

PASSWORD = "correct-horse-battery-staple"
MASTER_KEY = Fernet.generate_key().decode()
SECRET = "obviously-fake-customer-secret-1"


class Fields(HTMLParser):
    """The fields of the first form in a page that changes something, with their values."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        self._is_inside, self._select, self._area = False, "", ""
        self.feed(page)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given: dict[str, Any] = dict(attrs)
        if tag == "form":
            self._is_inside = given["action"].startswith("/changes/") and not self.values
        if not self._is_inside:
            return
        if tag == "input":
            self.values[given["name"]] = given.get("value", "")
        elif tag == "select":
            self._select = given["name"]
        elif tag == "option" and self._select and ("selected" in given or self._select not in self.values):
            self.values[self._select] = given["value"]
        elif tag == "textarea":
            self._area = given["name"]
            self.values[self._area] = ""

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._area:
            # A browser drops the first line feed, and sends the others as CR LF.
            text = self.values[self._area].removeprefix("\n")
            self.values[self._area] = text.replace("\n", "\r\n")
            self._area = ""
        elif tag == "select":
            self._select = ""
        elif tag == "form":
            self._is_inside = False

    @override
    def handle_data(self, data: str) -> None:
        if self._area:
            self.values[self._area] += data


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway) -> Gateway:
    return start_gateway(
        sections={"admin": {"console_password": "env:CONSOLE_PASSWORD"}},
        environment={"CONSOLE_PASSWORD": PASSWORD, "TOLLGATE_SECRET_KEY": MASTER_KEY},
    )


@pytest.fixture
def console(gateway: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.admin_url, timeout=BOUND_S, trust_env=False) as client:
        login = re.findall(r'name="_xsrf" value="([^"]+)"', client.get("/login").text)
        client.post("/login", data={"_xsrf": login[0], "password": PASSWORD})
        yield client


def fill_in(console: httpx.Client, path: str, **typed: str) -> httpx.Response:
    """Open a form, type, and send it."""
    fields = Fields(console.get(path).text).values
    assert fields.keys() >= typed.keys()
    return console.post(path, data={**fields, **typed}, follow_redirects=True)


def change(console: httpx.Client, path: str, **typed: str) -> str:
    """Make a change, and return the page with its difference."""
    shown = fill_in(console, path, **typed)
    assert shown.status_code == 200, shown.text
    done = console.post(path, data=Fields(shown.text).values)
    assert done.status_code == 303, done.text
    assert ">Done<" in console.get(done.headers["location"]).text
    return shown.text


def text_of(gateway: Gateway, workspace: str) -> str:
    return (gateway.folder / f"policies/workspaces/{workspace}.toml").read_text()


def test_a_workspace_gets_settings_rules_and_its_text(gateway: Gateway, console: httpx.Client) -> None:
    assert 'href="/changes/workspaces/create"' in console.get("/workspaces").text
    change(console, "/changes/workspaces/create", workspace="forms", name="A <b> & C")
    change(console, "/changes/workspaces/set/forms", rpm_override="77", overage_protection="")
    change(console, "/changes/rules/add/forms", keywords="bill\r\ntax", model=model_of(console))
    change(console, "/changes/heuristics/add/forms", when="tools", model=model_of(console))
    written = text_of(gateway, "forms")
    assert written == (
        'name = "A <b> & C"\nrpm_override = 77\n\n'
        f'[[rules]]\nkeywords = ["bill", "tax"]\nmodel = "{model_of(console)}"\n\n'
        f'[[heuristics]]\nwhen = "tools"\nmodel = "{model_of(console)}"\n'
    )
    text = Fields(console.get("/changes/workspaces/edit/forms").text).values["text"]
    assert text.replace("\r\n", "\n") == written
    page = change(console, "/changes/workspaces/edit/forms", text=text.replace("77", "78"))
    assert "rpm_override = 78" in page
    assert text_of(gateway, "forms") == written.replace("77", "78")
    change(console, "/changes/rules/remove/forms/1")
    assert "[[rules]]" not in text_of(gateway, "forms")


def model_of(console: httpx.Client) -> str:
    found: str = console.get("/api/v1/models?table=models").json()[0]["model_slug"]
    return found


def test_a_page_of_a_workspace_links_to_its_forms(gateway: Gateway, console: httpx.Client) -> None:
    page = console.get("/workspaces/acme").text
    for action in ("workspaces/set", "workspaces/edit", "rules/add", "heuristics/add", "byok/add"):
        assert f'href="/changes/{action}/acme"' in page
    path = "/changes/rules/add/acme"
    change(console, path, keywords="linked", model=model_of(console))
    rules = len(re.findall(r"^\[\[rules\]\]", text_of(gateway, "acme"), re.MULTILINE))
    form = console.get(f"/changes/rules/set/acme/{rules}").text
    for verb in ("move", "remove"):
        assert f'href="/changes/rules/{verb}/acme/{rules}"' in form


def test_an_own_key_is_in_no_page_and_no_log(gateway: Gateway, console: httpx.Client) -> None:
    path = "/changes/byok/add/acme"
    [provider] = re.findall(r'<option value="(TESTER)">', console.get(path).text)
    wrong = fill_in(console, path, provider="GONE", secret=SECRET)
    assert wrong.status_code == 400
    assert 'id="error-provider">must be one of' in wrong.text
    assert 'name="secret" type="password" value=""' in wrong.text
    mistaken = fill_in(console, "/changes/rules/add/acme", keywords="sk-live-0123456789abcdef", model="x")
    assert mistaken.status_code == 400
    assert "sk-live" not in mistaken.text
    shown = fill_in(console, path, provider=provider, secret=SECRET, routing="true")
    pages = [wrong.text, shown.text]
    fields = Fields(shown.text).values
    assert "secret" not in fields
    done = console.post(path, data=fields)
    assert done.status_code == 303
    [token] = re.findall(r'"sealed:([^"]+)"', text_of(gateway, "acme"))
    assert Fernet(MASTER_KEY).decrypt(token).decode() == SECRET
    again = console.post(path, data={**fields, "token": "", "again": "1", "secret": SECRET})
    pages += [
        again.text,
        *(console.get(one).text for one in PAGES),
        console.get(done.headers["location"]).text,
    ]
    hashes = re.findall("sha256:([0-9a-f]{64})", text_of(gateway, "acme"))
    for hidden in (SECRET, token, *hashes, MASTER_KEY):
        assert not [page for page in pages if hidden in unescape(page)]
        assert hidden not in str(gateway.logs)


PAGES = (
    "/workspaces/acme",
    "/changes/byok/set/acme/TESTER",
    "/changes/workspaces/edit/acme",
    "/changes/byok/remove/acme/TESTER",
    "/audit",
    "/api/v1/audit",
)


def test_a_typed_secret_is_not_shown_again(gateway: Gateway, console: httpx.Client) -> None:
    path = "/changes/workspaces/edit/acme"
    text = Fields(console.get(path).text).values["text"]
    # The gateway knows the first secret, and not the second one.
    for secret, reason in (
        (PASSWORD, "has a secret of this gateway"),
        (SECRET[::-1], "has a hash or a secret"),
    ):
        wrong = fill_in(console, path, text=f'{text}\r\n[byok.OTHER]\r\nsecret = "{secret}"\r\n')
        assert wrong.status_code == 400
        assert reason in wrong.text
        assert secret not in wrong.text
    assert 'secret = "***"' in unescape(wrong.text)


def test_a_file_that_never_loaded_is_mended(gateway: Gateway, console: httpx.Client) -> None:
    file = gateway.folder / "policies/workspaces/broken.toml"
    file.write_text("name = Broken\n")
    wait_for_state(console, "broken", "not served")
    assert 'href="/changes/workspaces/edit/broken"' in console.get("/workspaces/broken").text
    refused = console.get("/changes/workspaces/set/broken")
    assert "mend it as text first" in refused.text
    change(console, "/changes/workspaces/edit/broken", text='name = "Broken"\r\n')
    assert file.read_text() == 'name = "Broken"\n'
    wait_for_state(console, "broken", "served")


def wait_for_state(console: httpx.Client, workspace: str, state: str) -> None:
    deadline_s = monotonic() + BOUND_S
    while True:
        rows = console.get("/api/v1/workspaces?table=workspaces").json()
        if state in [row["state"] for row in rows if row["workspace"] == workspace]:
            return
        assert monotonic() < deadline_s
        sleep(0.05)


def test_a_form_of_a_file_that_changed_since_is_refused(gateway: Gateway, console: httpx.Client) -> None:
    path = "/changes/workspaces/set/bare"
    fields = Fields(console.get(path).text).values
    edit(gateway.folder / "policies/workspaces/bare.toml", "", "# by hand\n")
    refused = console.post(path, data={**fields, "rpm_override": "5"})
    assert refused.status_code == 400
    assert "has changed since this form was opened" in refused.text
    assert 'value="5"' in refused.text


@pytest.mark.parametrize(
    "path", ["/changes/workspaces/edit/acme", "/changes/byok/add/acme", "/changes/workspaces/create"]
)
def test_nothing_is_changed_without_a_session(gateway: Gateway, path: str) -> None:
    answer = httpx.post(gateway.admin_url + path, data={"text": "x"}, timeout=BOUND_S)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
