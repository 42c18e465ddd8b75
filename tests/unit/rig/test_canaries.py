"""The search for secrets: it finds a secret in every place, whole or in part, plain or encoded."""

import base64
import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from rig.canaries import PIECE_CHARS, Canaries, all_files_seen, seen_in_answer, seen_in_head
from rig.raw_clients import Answer
from rig.scripts import Received

PLANTED = "Vb6rT0qLzM3nXw8KdY5sHe2uPa9cGf7jRi4oQm1t"
CANARIES = Canaries({"planted text": PLANTED})

FORMS = {
    "as it is": PLANTED,
    "in upper case": PLANTED.upper(),
    "its first half": PLANTED[: len(PLANTED) // 2],
    "its second half": PLANTED[len(PLANTED) // 2 :],
    "reversed": PLANTED[::-1],
    "in base64": base64.b64encode(f"user:{PLANTED}".encode()).decode(),
    "in base64 of URLs": base64.urlsafe_b64encode(f"u:{PLANTED}:".encode()).decode(),
    "escaped for JSON": "".join(f"\\u{ord(char):04x}" for char in PLANTED),
    "escaped for JSON in JSON": "".join(f"\\\\u{ord(char):04X}" for char in PLANTED),
    "as a hex dump": PLANTED.encode().hex(),
    "as a hex dump behind a digit": "a" + PLANTED.encode().hex(),
    "as a hex dump with blanks": PLANTED.encode().hex(" "),
    "escaped for Python": "".join(f"\\x{ord(char):02x}" for char in PLANTED),
    "escaped for URLs": "".join(f"%{ord(char):02x}" for char in PLANTED),
}


def _received(target: str = "/", header: str = "", body: str = "") -> Received:
    headers = [("Authorization", "Bearer own"), ("X-Other", header)]
    return Received("POST", target, headers, body.encode(), 1, 1, threading.Event())


def _ledger_with(text: str, folder: Path, *, is_open: bool) -> bytes:
    with closing(sqlite3.connect(folder / "tollgate.db")) as ledger:
        ledger.execute("PRAGMA journal_mode = wal")
        ledger.execute("CREATE TABLE usage (end_user TEXT)")
        ledger.execute("INSERT INTO usage VALUES (?)", [text])
        ledger.commit()
        if is_open:
            return all_files_seen(folder)
    return all_files_seen(folder)


def _file_with(text: str, folder: Path) -> bytes:
    file = folder / "as-the-test-wrote-it"
    file.write_bytes(b"before")
    written = {file: b"before"}
    assert all_files_seen(folder, written) == b""
    file.write_text(text)
    return all_files_seen(folder, written)


OWN_AUTH = ("authorization", "Bearer own")
PLACES: dict[str, Callable[[str, Path], bytes]] = {
    "an answer's head": lambda text, _: seen_in_answer(httpx.Response(200, headers={"x-id": text})),
    "an answer's body": lambda text, _: seen_in_answer(httpx.Response(200, text=f"data: {text}\n\n")),
    "an answer as it came": lambda text, _: seen_in_answer(Answer(200, [("x-id", text)], b"{}")),
    "a request's target": lambda text, _: seen_in_head(_received(target=f"/?q={text}"), OWN_AUTH),
    "a request's header": lambda text, _: seen_in_head(_received(header=text), OWN_AUTH),
    "the ledger that is open": lambda text, folder: _ledger_with(text, folder, is_open=True),
    "the ledger that was closed": lambda text, folder: _ledger_with(text, folder, is_open=False),
    "a file": _file_with,
    "a log line": lambda text, _: json.dumps({"message": f"it is {text}."}).encode(),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_planted_secret_is_found_in_every_form(tmp_path: Path, place: str) -> None:
    for form, text in FORMS.items():
        folder = tmp_path / form
        folder.mkdir()
        found = CANARIES.found_in(PLACES[place](text, folder))
        assert {line.split(",")[0] for line in found} == {"planted text"}, form


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_found_in_a_clean_place(tmp_path: Path, place: str) -> None:
    assert not CANARIES.found_in(PLACES[place](PLANTED[: PIECE_CHARS - 1], tmp_path))


def test_a_file_whose_name_is_a_secret_is_found(tmp_path: Path) -> None:
    (tmp_path / PLANTED).touch()
    assert CANARIES.found_in(all_files_seen(tmp_path))
