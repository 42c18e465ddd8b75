"""Access to the console: by the addresses of its sockets, its password, and what a browser says of a request."""

import os
from pathlib import Path

import pytest
from rig.admin_port import PASSWORD, Port, opened
from rig.large import sampled
from tornado.httputil import HTTPHeaders, HTTPServerRequest

from addon.console.access.guard import Guard, find_client
from addon.settings.settings import Settings

WITH = 'console_password = "file:phrase"'

# the addresses of the sockets, whether the console is served without a password
ADDRESSES: dict[str, tuple[list[object], bool]] = {
    "IPv4 loopback": ([("127.0.0.1", 8081)], True),
    "IPv6 loopback": ([("::1", 8081, 0, 0)], True),
    "both": ([("127.0.0.1", 8081), ("::1", 8081, 0, 0)], True),
    "loopback, mapped": ([("::ffff:127.0.0.1", 8081, 0, 0)], True),
    "all addresses": ([("0.0.0.0", 8081)], False),
    "all addresses, IPv6": ([("::", 8081, 0, 0)], False),
    "one of them is not loopback": ([("127.0.0.1", 8081), ("10.0.0.1", 8081)], False),
    "a unix socket": (["/run/tollgate.sock"], False),
    "an abstract unix socket": ([b"\0tollgate"], False),
    "an unnamed socket": ([""], False),
    "what no one knows": ([None], False),
    "no socket": ([], False),
}


def settings_with(folder: Path, admin: str) -> Settings:
    port = Port(folder)
    (folder / "phrase").write_text(PASSWORD)
    port.load(admin)
    return port.settings


@sampled(every=4)
@pytest.mark.parametrize("case", ADDRESSES)
def test_without_a_password_every_socket_must_be_on_loopback(tmp_path: Path, case: str) -> None:
    addresses, is_open = ADDRESSES[case]
    for admin, expected in (("", is_open), (WITH, True), ('console_password = "file:none"', False)):
        settings = settings_with(tmp_path, admin)
        guard = Guard(lambda settings=settings: settings, addresses)  # type: ignore[misc]
        assert guard.is_open is expected
        guard.close()


def test_sockets_that_others_reach_are_logged_when_proxy_conf_does_not_say_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for admin, logged in (("", 1), ('host = "0.0.0.0"', 0)):
        caplog.clear()
        settings = settings_with(tmp_path, admin)
        Guard(lambda settings=settings: settings, [("0.0.0.0", 8081)]).close()  # type: ignore[misc]
        assert [one.event for one in caplog.records] == ["console closed"] * logged  # type: ignore[attr-defined]


async def test_a_session_outlives_a_restart_and_ends_with_its_password(tmp_path: Path) -> None:
    host = {"Host": "localhost:8081"}
    async with opened(tmp_path, WITH) as port:
        port.http.headers.update(host)
        assert (await port.log_in()).status_code == 303
        [cookie] = [f"{name}={value}" for name, value in port.http.cookies.items()]
    assert cookie.startswith("tollgate_session_8081=")
    async with opened(tmp_path, WITH) as port:
        port.http.headers.update(host | {"Cookie": cookie})
        assert (await port.http.get("/models")).status_code == 200
        (tmp_path / "phrase").write_text(f"{PASSWORD} 2")
        port.load(WITH)
        assert (await port.http.get("/models")).status_code == 303
        del port.http.headers["Cookie"]
        wrong = await port.log_in(PASSWORD)
        assert (wrong.status_code, "The password is wrong." in wrong.text) == (403, True)
        assert (await port.log_in(f"{PASSWORD} 2")).status_code == 303


async def test_a_password_that_is_lost_closes_the_console_and_one_that_is_back_opens_it(
    guarded: Port,
) -> None:
    assert (await guarded.log_in()).status_code == 303
    phrase = guarded.folder / "phrase"
    os.rename(phrase, guarded.folder / "elsewhere")
    guarded.load(WITH)
    for path in ("/models", "/login", "/static/console.css"):
        assert (await guarded.http.get(path)).json()["error"]["code"] == "not_found"
    assert (await guarded.http.get("/healthz")).status_code == 200
    os.rename(guarded.folder / "elsewhere", phrase)
    guarded.load(WITH)
    assert (await guarded.http.get("/models")).status_code == 200


# the headers of a browser, whether the request is answered
FETCHES: dict[str, tuple[dict[str, str], bool]] = {
    "the console itself": ({"Site": "same-origin", "Mode": "cors", "Dest": "empty"}, True),
    "a typed address": ({"Site": "none", "Mode": "navigate", "Dest": "document"}, True),
    "a link on another site": ({"Site": "cross-site", "Mode": "navigate", "Dest": "document"}, True),
    "a link on another port": ({"Site": "same-site", "Mode": "navigate", "Dest": "document"}, True),
    "an image on another site": ({"Site": "cross-site", "Mode": "no-cors", "Dest": "image"}, False),
    "a script on another port": ({"Site": "same-site", "Mode": "no-cors", "Dest": "script"}, False),
    "fetch on another site": ({"Site": "cross-site", "Mode": "cors", "Dest": "empty"}, False),
    "a frame": ({"Site": "cross-site", "Mode": "navigate", "Dest": "iframe"}, False),
    "a browser that says too little": ({"Site": "cross-site"}, False),
    "no browser": ({}, True),
}


async def test_another_site_may_link_and_not_embed(free: Port) -> None:
    for case, (said, is_answered) in FETCHES.items():
        headers = {f"Sec-Fetch-{name}": value for name, value in said.items()}
        for path in ("/models", "/api/v1/models", "/static/console.css"):
            answer = await free.http.get(path, headers=headers)
            assert answer.status_code == (200 if is_answered else 403), (case, path)


async def test_a_link_on_another_site_to_a_session_loads_the_form_again_from_here(guarded: Port) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    form = await guarded.http.get("/login?next=/models", headers=link)
    assert (form.status_code, form.headers["refresh"]) == (200, "0")
    assert (await guarded.log_in()).status_code == 303
    here = link | {"Sec-Fetch-Site": "same-origin"}
    again = await guarded.http.get("/login?next=/models", headers=here)
    assert (again.status_code, again.headers["location"]) == (303, "/models")


# the address of the peer, X-Forwarded-For, whom the back-off counts
CLIENTS = {
    "no proxy": ("192.0.2.1", None, "192.0.2.1"),
    "a proxy on this machine": ("127.0.0.1", "192.0.2.7", "192.0.2.7"),
    "the last one is the proxy's own word": ("::1", "192.0.2.9, 192.0.2.7", "192.0.2.7"),
    "a client elsewhere that says so": ("192.0.2.1", "192.0.2.7", "192.0.2.1"),
    "no address": ("127.0.0.1", "unknown", "127.0.0.1"),
    "a line of its own": ("127.0.0.1", "192.0.2.7\u2028x", "127.0.0.1"),
    "IPv6": ("127.0.0.1", "2001:DB8::1", "2001:db8::1"),
    "IPv4 over a socket for both": ("::ffff:192.0.2.1", None, "192.0.2.1"),
    "IPv4 of a proxy for both": ("::ffff:127.0.0.1", "::ffff:192.0.2.7", "192.0.2.7"),
    "a zone of an address, which may be any text": ("127.0.0.1", "fe80::1%<script>", "127.0.0.1"),
}


@pytest.mark.parametrize("case", CLIENTS)
def test_failures_count_for_the_client_of_a_proxy_on_this_machine(case: str) -> None:
    peer, named, client = CLIENTS[case]
    headers = HTTPHeaders({"Host": "localhost"} | ({"X-Forwarded-For": named} if named else {}))
    request = HTTPServerRequest("GET", "/", headers=headers)
    request.remote_ip = peer
    assert find_client(request) == client


@pytest.mark.parametrize(
    "target",
    ["http://127.0.0.1/models", "http://evil.example.com/models", "models", "*", "evil:80", "//models"],
)
async def test_only_a_path_is_a_target(free: Port, target: str) -> None:
    reader, writer = await free.send(f"GET {target} HTTP/1.1", "Host: localhost", "Connection: close")
    head = await reader.readline()
    assert head.split()[1] in (b"400", b"404")
    writer.close()


@pytest.mark.parametrize(
    "lines", [(), ("Host: localhost", "Host: localhost"), ("Host: a, b",), ("Host: localhost", "Host: evil")]
)
async def test_a_request_needs_one_host(free: Port, lines: tuple[str, ...]) -> None:
    for version in ("HTTP/1.0", "HTTP/1.1"):
        reader, writer = await free.send(f"GET /models {version}", *lines, "Connection: close")
        assert (await reader.readline()).split()[1] in (b"400", b"421")
        writer.close()


async def test_a_file_whose_name_can_not_exist_is_none(free: Port, caplog: pytest.LogCaptureFixture) -> None:
    for path in ("/static/%00", "/static/console.css%00", "/static/" + "a" * 5000):
        assert (await free.http.get(path)).status_code == 404
    assert not [one for one in caplog.records if one.name == "tollgate.console"]
