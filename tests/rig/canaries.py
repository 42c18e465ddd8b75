"""A search for secrets in any output: whole or in part, plain or encoded, in upper or lower case.

A part has ``PIECE_CHARS`` characters and begins at a multiple of them. So the search finds each part of twice that
length, and ignores the few characters that vendors show to identify a key.
"""

import base64
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote_to_bytes

import httpx

from rig.raw_clients import Answer
from rig.scripts import Received

PIECE_CHARS = 8
# A character that no secret has ends a word. Files of SQLite and logs repeat most words.
_DUMP = re.compile(rb"(?:[0-9a-f]{2}[ :]?){%d,}[0-9a-f]?" % PIECE_CHARS)
_WORD = re.compile(rb"[!-~]{%d,}" % PIECE_CHARS)


def _pieces(text: bytes) -> set[bytes]:
    starts = range(0, len(text) - PIECE_CHARS + 1, PIECE_CHARS)
    return {text[start : start + PIECE_CHARS].lower() for start in starts}


def _forms(secret: bytes) -> dict[str, set[bytes]]:
    # The characters of the secret in base64 that do not depend on the bytes before and after it.
    encoded = (base64.b64encode(bytes(shift) + secret)[4:-4] for shift in range(3))
    return {
        "as it is": _pieces(secret),
        "reversed": _pieces(secret[::-1]),
        "in base64": set().union(*map(_pieces, encoded)),
    }


def _readings(seen: bytes) -> Iterator[bytes]:
    """Return the output as it is, as the bytes of its hex dumps, and without escapes of JSON, Python and URLs."""
    lower = seen.lower()
    yield lower
    yield from _dumped(lower)
    plain = lower
    if b"\\" in plain:
        unescaped = re.sub(
            rb"\\+(?:u00|x)([0-9a-f]{2})", lambda match: bytes.fromhex(match[1].decode()), plain
        )
        plain = unescaped.replace(b"\\/", b"/")
    if b"%" in plain:
        plain = unquote_to_bytes(plain)
    if plain is not lower:
        yield plain.lower()


def _dumped(seen: bytes) -> Iterator[bytes]:
    """Return the bytes of hex digits, also if an extra digit comes first."""
    runs = [re.sub(rb"[ :]", b"", run) for run in _DUMP.findall(seen)]
    for first in (0, 1):
        pairs = (run[first : len(run) - (len(run) - first) % 2] for run in runs)
        yield b"\n".join(bytes.fromhex(pair.decode()).lower() for pair in pairs)


class Canaries:
    """The secrets of one test by name."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._found: dict[bytes, tuple[str, str]] = {
            piece: (name, f"{name}, {form}")
            for name, secret in secrets.items()
            for form, pieces in _forms(secret.encode()).items()
            for piece in pieces
        }

    def found_in(self, seen: bytes, allowed: Collection[str] = ()) -> set[str]:
        """Return the secrets that the output shows, except ``allowed``, each with the form it was found in."""
        hits = {
            found
            for reading in _readings(seen)
            for word in set(_WORD.findall(reading))
            for start in range(len(word) - PIECE_CHARS + 1)
            if (found := self._found.get(word[start : start + PIECE_CHARS]))
        }
        return {description for name, description in hits if name not in allowed}


def seen_in_answer(answer: httpx.Response | Answer) -> bytes:
    """Return all that a client gets: status, head and body."""
    if isinstance(answer, Answer):
        return repr((answer.status, answer.headers)).encode() + answer.body
    return (
        f"{answer.status_code} {answer.reason_phrase} {answer.headers.multi_items()}".encode()
        + answer.content
    )


def seen_in_head(request: Received, auth: tuple[str, str]) -> bytes:
    """Return the head of a provider's request without the header of its key. Fail if that header is missing."""
    others = [(name.lower(), value) for name, value in request.headers]
    others.remove(auth)
    return f"{request.method} {request.target} {others}".encode()


def seen_in_files(folder: Path, written: Mapping[Path, bytes]) -> Iterator[tuple[Path, bytes]]:
    """Yield name and content of each file below ``folder`` that is not as the test wrote it."""
    for file in folder.rglob("*"):
        if file.is_file() and (content := file.read_bytes()) != written.get(file):
            yield file, str(file.relative_to(folder)).encode() + b"\n" + content


def all_files_seen(folder: Path, written: Mapping[Path, bytes] = MappingProxyType({})) -> bytes:
    """Return all contents of ``seen_in_files``, joined."""
    return b"\n".join(content for _, content in seen_in_files(folder, written))
