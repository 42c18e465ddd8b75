"""The keys that sign sessions: random, of one installation, and no help to guess the password."""

import hashlib
import json
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rig.admin_port import PASSWORD, Port, form_of, opened
from tornado.web import decode_signed_value

from addon.console.access.password import derive_keys
from addon.console.access.session import read_cookie
from addon.console.access.session_keys import COST, SessionKeys, find_session_keys
from addon.settings.conf_schema import SESSION_KEYS_FILE
from addon.settings.sealed_secrets import MasterKeys, make_master_key

WITH = 'console_password = "file:phrase"'
WORD_LIST = ["letmein", PASSWORD, "correct horse"]


def guess(word: str, salt: bytes) -> bytes:
    return hashlib.scrypt(word.encode(), salt=salt, n=2**15, r=8, p=1, maxmem=2**26, dklen=64)


async def test_what_the_form_to_log_in_gives_confirms_no_word_of_a_list(tmp_path: Path) -> None:
    async with opened(tmp_path, WITH) as port:
        page = await port.http.get("/login")
        [(name, quoted)] = port.http.cookies.items()
        value = quoted.strip('"')
        token = form_of(page)["_xsrf"]
        real = find_session_keys(tmp_path / "var" / SESSION_KEYS_FILE, None)
    # All that an attacker knows: this code, and the answer. An installation of their own has other keys.
    installations = [
        SessionKeys(signing="0" * 64, salt="0" * 32, scrypt_n=2),
        real.model_copy(update={"signing": "1" * 64}),
    ]
    for word in WORD_LIST:
        keys = [derive_keys(word, one) for one in installations]
        halves = guess(word, b"tollgate console password v1")
        tried = [*(one.signing for one in keys), *(one.verifier.hex() for one in keys), halves[32:].hex()]
        assert [decode_signed_value(one, name, value) for one in tried] == [None] * len(tried)
        assert token not in tried
    # The test can find it: with the file, the cookie is a session.
    assert read_cookie(derive_keys(PASSWORD, real).signing, name, value) is not None


async def log_in(folder: Path, password: str = PASSWORD) -> str:
    """Return the cookie of a session of an installation."""
    async with opened(folder, WITH) as port:
        (folder / "phrase").write_text(password)
        port.load(WITH)
        port.http.headers["Host"] = "localhost:8081"
        assert (await port.log_in(password)).status_code == 303
        [cookie] = [f"{name}={value}" for name, value in port.http.cookies.items()]
        return cookie


async def is_session(port: Port, cookie: str) -> bool:
    port.http.headers.update({"Host": "localhost:8081", "Cookie": cookie})
    return (await port.http.get("/models")).status_code == 200


async def test_only_machines_that_share_the_file_share_sessions(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "copied", "other")]
    for folder in folders:
        folder.mkdir()
    cookie = await log_in(folders[0])
    (folders[1] / "var").mkdir()
    shutil.copy2(folders[0] / "var" / SESSION_KEYS_FILE, folders[1] / "var")
    for folder in folders[1:]:
        async with opened(folder, WITH) as port:
            assert await is_session(port, cookie) is (folder.name == "copied")


def test_the_file_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "var" / SESSION_KEYS_FILE
    with ThreadPoolExecutor(8) as threads:
        made = set(threads.map(lambda _: find_session_keys(file, None), range(32)))
    assert len(made) == 1
    assert (stat.S_IMODE(file.stat().st_mode), os.listdir(file.parent)) == (0o600, [SESSION_KEYS_FILE])
    assert made == {find_session_keys(file, None)}
    assert [one.scrypt_n for one in made] == [COST]


def test_a_master_key_gives_all_machines_the_same_keys_without_a_file(tmp_path: Path) -> None:
    first, other = make_master_key(), make_master_key()
    seeds = [MasterKeys(text).derive("console sessions") for text in (first, f"{first},{other}", other)]
    keys = [find_session_keys(tmp_path / SESSION_KEYS_FILE, seed) for seed in seeds]
    assert (keys[0] == keys[1], keys[0] == keys[2], list(tmp_path.iterdir())) == (True, False, [])
    assert first not in keys[0].model_dump_json()


def test_a_master_key_that_is_made_later_ends_no_session(tmp_path: Path) -> None:
    before = find_session_keys(tmp_path / SESSION_KEYS_FILE, None)
    assert (
        find_session_keys(tmp_path / SESSION_KEYS_FILE, MasterKeys(make_master_key()).derive("any")) == before
    )


GOOD = {"signing": "a" * 64, "salt": "b" * 32, "scrypt_n": 2}

# the content of the file, its mode, the reason in the log
BAD = {
    "open to others": (json.dumps(GOOD), 0o640, "users other than its owner have access"),
    "empty": ("", 0o600, "holds no session keys"),
    "cut": (json.dumps(GOOD)[:-20], 0o600, "holds no session keys"),
    "too short a key": (json.dumps(GOOD | {"signing": "a"}), 0o600, "holds no session keys"),
    "too costly": (json.dumps(GOOD | {"scrypt_n": 2**30}), 0o600, "holds no session keys"),
    "no power of two": (json.dumps(GOOD | {"scrypt_n": 3}), 0o600, "holds no session keys"),
    "a folder": (None, 0o700, "directory"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_can_not_be_used_ends_sessions_with_the_process_and_says_so(
    tmp_path: Path, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    content, mode, reason = BAD[case]
    file = tmp_path / SESSION_KEYS_FILE
    if content is None:
        file.mkdir()
    else:
        file.write_text(content)
    file.chmod(mode)
    assert find_session_keys(file, None) != find_session_keys(file, None)
    assert {one.event for one in caplog.records} == {"console sessions not kept"}  # type: ignore[attr-defined]
    assert reason in caplog.text
    assert "aaaa" not in caplog.text
    assert content is None or file.read_text() == content


def test_a_folder_that_can_not_have_the_file_is_no_fault_of_the_console(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "var").write_text("not a folder")
    find_session_keys(tmp_path / "var" / SESSION_KEYS_FILE, None)
    assert "Not a directory" in caplog.text


def test_no_text_of_the_keys_shows_them() -> None:
    keys = SessionKeys.model_validate(GOOD)
    assert "aaaa" not in f"{keys!r} {keys} {derive_keys(PASSWORD, keys)!r}"
