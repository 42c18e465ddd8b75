"""Who may see the console of a real gateway: with a password, and on an address that others reach."""

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import urlsplit

import httpx
import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.gateway import Gateway

PASSWORD = "obviously fake pass phrase"
SECTIONS = {"admin": {"console_password": "env:CONSOLE_PASSWORD", "console_hosts": ["console.example.com"]}}


@pytest.fixture(scope="module")
def guarded(start_gateway: StartGateway) -> Gateway:
    """A gateway whose console has a password."""
    return start_gateway(sections=SECTIONS, environment={"CONSOLE_PASSWORD": PASSWORD})


@pytest.fixture
def browser(guarded: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=guarded.admin_url, timeout=BOUND_S, trust_env=False) as client:
        yield client


def form_of(page: httpx.Response) -> dict[str, str]:
    """Return the hidden fields of a page."""
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.text)
    return {name: unescape(value) for name, value in found}


def log_in(client: httpx.Client, password: str = PASSWORD, wanted: str = "/models") -> httpx.Response:
    """Send the form to log in."""
    page = client.get("/login", params={"next": wanted})
    assert page.status_code == 200
    return client.post("/login", data=form_of(page) | {"password": password})


def test_a_login_leads_to_the_page_that_was_asked_for(browser: httpx.Client) -> None:
    page = browser.get("/models?q=a%20b")
    assert (page.status_code, page.headers["location"]) == (303, "/login?next=%2Fmodels%3Fq%3Da%2520b")
    assert browser.get("/api/v1/models").status_code == 401
    form = browser.get(page.headers["location"])
    assert form.status_code == 200
    answer = browser.post("/login", data=form_of(form) | {"password": PASSWORD})
    assert (answer.status_code, answer.headers["location"]) == (303, "/models?q=a%20b")
    cookie = answer.headers["set-cookie"]
    port = urlsplit(str(browser.base_url)).port
    assert cookie.startswith(f"tollgate_session_{port}=")
    attributes = {one.strip().partition("=")[0].lower() for one in cookie.split(";")[1:]}
    assert attributes == {"expires", "httponly", "path", "samesite"}
    assert "SameSite=Strict" in cookie
    assert browser.get("/models").status_code == 200
    assert browser.get("/api/v1/models").json()["models"]


def test_a_session_ends_with_a_form_and_its_cookie_is_worth_nothing_then(browser: httpx.Client) -> None:
    log_in(browser)
    page = browser.get("/models")
    kept = dict(browser.cookies)
    assert browser.get("/logout").headers["allow"] == "POST"
    answer = browser.post("/logout", data=form_of(page))
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert not browser.cookies
    browser.cookies.update(kept)
    assert browser.get("/models").status_code == 303


def test_a_form_needs_the_token_of_its_session_and_its_own_site(browser: httpx.Client) -> None:
    log_in(browser)
    fields = form_of(browser.get("/models"))
    others = {"_xsrf": "0" * 64}
    for sent in ({}, others, {"_xsrf": ""}, {"_xsrf": fields["_xsrf"][:-1]}):
        assert browser.post("/logout", data=sent).status_code == 403
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "null"},
        {"Origin": "http://evil.example.com"},
        {"Origin": f"http://127.0.0.1:{browser.base_url.port}0"},
        {"Origin": f"ftp://127.0.0.1:{browser.base_url.port}"},
    ):
        answer = browser.post("/logout", data=fields, headers=headers)
        assert (answer.status_code, "Another site" in answer.text) == (403, True), headers
    assert browser.get("/models").status_code == 200
    own = {"Sec-Fetch-Site": "same-origin", "Origin": str(browser.base_url)}
    assert browser.post("/logout", data=fields, headers=own).status_code == 303


def test_a_wrong_password_shows_the_form_again_and_many_must_wait(
    browser: httpx.Client, guarded: Gateway
) -> None:
    log_in(browser)  # A browser that was logged in has a back-off of its own.

    def failed() -> int:
        return len([line for line in guarded.logs if line.get("event") == "console login failed"])

    before = failed()
    answers = [log_in_again(browser, f"{PASSWORD} 1")]
    assert "The password is wrong." in answers[0].text
    # The waits double. So one of few attempts comes too early, however slow the machine is.
    while answers[-1].status_code == 403 and len(answers) < 12:
        answers.append(log_in_again(browser, f"{PASSWORD} {len(answers) + 1}"))
    *wrong, early = answers
    assert {one.status_code for one in wrong} == {403}
    assert len(wrong) >= 3
    assert (early.status_code, int(early.headers["retry-after"]) >= 1) == (429, True)
    guarded.wait_until(lambda: failed() - before >= len(wrong))  # A thread writes the lines later.
    assert failed() - before == len(wrong)


def log_in_again(client: httpx.Client, password: str = PASSWORD) -> httpx.Response:
    """Send the form to log in with the session of a browser that has one."""
    fields = form_of(client.get("/models"))
    return client.post("/login", data=fields | {"password": password})


def test_a_program_sends_the_password_with_each_request(browser: httpx.Client) -> None:
    bearer = {"Authorization": f"Bearer {PASSWORD}"}
    for _ in range(20):
        assert browser.get("/api/v1/models", headers=bearer).status_code == 200
    assert browser.get("/api/v1/models", auth=("anyone", PASSWORD)).status_code == 200
    refused = browser.get("/api/v1/models", headers={"Authorization": "Bearer no such pass phrase"})
    assert (refused.status_code, refused.headers["www-authenticate"]) == (
        401,
        'Bearer realm="tollgate console"',
    )
    assert refused.json()["error"]["message"].endswith("as a Bearer token, in the header Authorization.")
    # A header is for programs: pages and forms take none.
    assert browser.get("/models", headers=bearer).status_code == 303
    assert browser.post("/logout", headers=bearer).status_code == 303


@pytest.mark.parametrize(
    "path", ["/", "/models", "/login", "/nothing", "/api/v1/models", "/static/console.css"]
)
def test_a_request_for_another_name_is_refused(browser: httpx.Client, path: str) -> None:
    answer = browser.get(path, headers={"Host": "evil.example.com"})
    assert answer.status_code == 421
    assert "set-cookie" not in answer.headers
    assert "evil" not in answer.text


def test_a_name_of_console_hosts_is_accepted_with_https(browser: httpx.Client) -> None:
    proxied = {"Host": "console.example.com", "X-Forwarded-Proto": "https"}
    form = browser.get("/login", headers=proxied)
    cookie = form.headers["set-cookie"]
    assert cookie.startswith("__Host-tollgate_session=")
    assert "; secure" in cookie.lower()
    value = cookie.partition(";")[0]
    sent = proxied | {"Cookie": value, "Origin": "https://console.example.com"}
    answer = browser.post("/login", headers=sent, data=form_of(form) | {"password": PASSWORD})
    assert answer.status_code == 303


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_health_and_metrics_need_no_password_and_check_no_name(browser: httpx.Client, path: str) -> None:
    assert browser.get(path, headers={"Host": "evil.example.com"}).status_code == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_other_methods_are_refused(browser: httpx.Client, method: str) -> None:
    for path in ("/models", "/login", "/static/console.css", "/api/v1/models"):
        answer = browser.request(method, path)
        allowed = "GET, HEAD, POST" if path == "/login" else "GET, HEAD"
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed), path


def test_static_files_and_errors_set_no_cookie_and_have_the_strict_headers(browser: httpx.Client) -> None:
    for path in ("/static/console.css", "/static/none", "/nothing", "/login", "/api/v1/nothing"):
        answer = browser.get(path)
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; ")
        assert answer.headers["x-frame-options"] == "DENY"
        assert "server" not in answer.headers
        assert ("set-cookie" in answer.headers) is (path == "/login")
        assert "Traceback" not in answer.text


def test_without_a_password_only_loopback_has_a_console(start_gateway: StartGateway) -> None:
    gateway = start_gateway(sections={"admin": {"host": "0.0.0.0"}})
    gateway.wait_for_log(lambda line: line.get("kind") == "console_closed")
    base = f"http://127.0.0.1:{urlsplit(gateway.admin_url).port}"
    for path in ("/", "/models", "/login", "/static/console.css", "/api/v1/models"):
        answer = httpx.get(base + path, timeout=BOUND_S, trust_env=False)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found"), path
    for path in ("/healthz", "/readyz", "/metrics"):
        assert httpx.get(base + path, timeout=BOUND_S, trust_env=False).status_code == 200


def test_on_loopback_without_a_password_no_proxy_and_no_form_gets_in(gateway: Gateway) -> None:
    assert httpx.get(f"{gateway.admin_url}/models", timeout=BOUND_S).status_code == 200
    assert httpx.get(f"{gateway.admin_url}/login", timeout=BOUND_S).headers["location"] == "/"
    for headers in ({"X-Forwarded-For": "192.0.2.1"}, {"Via": "1.1 proxy"}, {"Forwarded": "for=192.0.2.1"}):
        answer = httpx.get(f"{gateway.admin_url}/models", headers=headers, timeout=BOUND_S)
        assert (answer.status_code, "console_password" in answer.text) == (403, True)
    for path in ("/models", "/login", "/logout"):
        assert httpx.post(f"{gateway.admin_url}{path}", timeout=BOUND_S).status_code == 403
