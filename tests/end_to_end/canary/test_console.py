"""No page and no data of the console shows a secret. Its password, cookies and tokens appear nowhere else."""

import re
import socket
from urllib.parse import urlsplit

import httpx
from rig.bounds import BOUND_S
from rig.canaries import seen_in_answer
from rig.canary_scene import CONSOLE, KEYS, MESSAGES, NOT_CONSOLE, Scene


def test_a_password_a_cookie_and_a_token_of_the_console_are_shown_nowhere_else(scene: Scene) -> None:
    with httpx.Client(base_url=scene.gateway.admin_url, timeout=BOUND_S, trust_env=False) as browser:
        scene.console = seen = []
        for password, status in ((NOT_CONSOLE, 403), (CONSOLE, 303)):
            fields = dict(re.findall(r'name="(_xsrf|next)" value="([^"]*)"', browser.get("/login").text))
            answer = browser.post("/login", data=fields | {"password": password})
            assert answer.status_code == status
            scene.look("login", seen_in_answer(answer))
            seen += [fields["_xsrf"], *browser.cookies.values()]
        for path in (
            "/models",
            "/none",
            f"/{CONSOLE}",
            f"/models?{KEYS['solo']}=1",
            f"/models?a={KEYS['solo']}",
        ):
            for sent in (browser.get(path), browser.get(f"/api/v1{path}"), browser.post(path)):
                scene.look(f"console {path}", seen_in_answer(sent))
        for name, value in (
            ("Authorization", f"Bearer {NOT_CONSOLE}"),
            ("Authorization", f"Bearer \x01{CONSOLE}"),
            ("Cookie", f"tollgate_session={CONSOLE}"),
            ("Host", f"{KEYS['solo']}.example.com"),
            (f"X-{CONSOLE}", "1"),
        ):
            answer = raw_answer(scene.gateway.admin_url, name, value)
            scene.look(f"header {name}", answer)
        for scheme, password in (("Bearer", CONSOLE), ("Bearer", NOT_CONSOLE), ("Basic", NOT_CONSOLE)):
            plain = httpx.Client(base_url=browser.base_url, timeout=BOUND_S, trust_env=False)
            with plain:
                sent = plain.get("/api/v1/models", headers={"Authorization": f"{scheme} {password}"})
            assert sent.status_code == (200 if password == CONSOLE else 401)
            scene.look("program", seen_in_answer(sent))


def raw_answer(url: str, name: str, value: str) -> bytes:
    """Return the answer to a request for a page with one more header, as it is."""
    parts = urlsplit(url)
    others = "" if name == "Host" else f"Host: {parts.netloc}\r\n"
    with socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=BOUND_S) as client:
        client.sendall(
            f"GET /models HTTP/1.1\r\n{others}{name}: {value}\r\nConnection: close\r\n\r\n".encode()
        )
        return b"".join(iter(lambda: client.recv(65_536), b""))


def test_no_page_of_the_console_and_no_data_shows_a_secret(scene: Scene) -> None:
    headers = {"Authorization": f"Bearer {CONSOLE}"}
    body = {"model": "alpha", "messages": MESSAGES}
    pages = ("overview", "calls", "workspaces", "workspaces/own", "workspaces/solo", "models", "settings")
    with httpx.Client(base_url=scene.gateway.admin_url, timeout=BOUND_S, trust_env=False) as program:
        for page in (*pages, "explain", "audit"):
            answer = program.get(f"/api/v1/{page}", headers=headers)
            assert answer.status_code == 200, page
            scene.look(f"data of {page}", seen_in_answer(answer), {"prompt"})
        for name in ("own", "solo", "nosy"):
            asked = {"workspace": name, "body": body}
            answer = program.post("/api/v1/explain", json=asked, headers=headers)
            assert answer.status_code == 200, answer.text
            scene.look(f"explain of {name}", seen_in_answer(answer), {"prompt"})
    with httpx.Client(base_url=scene.gateway.admin_url, timeout=BOUND_S, trust_env=False) as browser:
        form = hidden_fields(browser.get("/login"))
        assert browser.post("/login", data=form | {"password": CONSOLE}).status_code == 303
        own = [*browser.cookies.values(), hidden_fields(browser.get("/explain"))["_xsrf"]]
        for page in (*pages, "explain", "audit"):
            answer = browser.get(f"/{page}")
            assert answer.status_code == 200, page
            # Each page has the token of its own session.
            seen = seen_in_answer(answer)
            for one in own:
                seen = seen.replace(one.encode(), b"")
            scene.look(f"page {page}", seen, {"prompt"})


def hidden_fields(page: httpx.Response) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.text))
