"""``tollgate ledger reconcile`` refuses bad files and options by name, place and cure."""

import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click import ClickException
from hypothesis import given
from hypothesis import strategies as st
from rig.usage_report import write_rows

from addon.commands.ledger_reconcile_files import MAX_FILE_BYTES, read_exports
from unit.commands.test_ledger_reconcile import CALLS, COSTS, MODELS, USAGE, conf_with, run


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    file = conf_with(MODELS, tmp_path)
    write_rows(file, CALLS)
    return file


def test_bad_files_are_refused_by_name_place_and_cure(conf: Path, tmp_path: Path) -> None:
    cases: list[tuple[str, bytes, str]] = [
        ("empty.csv", b"", "the file is empty; export it again"),
        (
            "excel.csv",
            b"PK\x03\x04...",
            "is a ZIP archive or an Excel file; unpack it, or save the table as CSV",
        ),
        ("wide.csv", "a,b".encode("utf-16"), "is UTF-16; save it as UTF-8"),
        ("latin.csv", b"a,b\n\xe9,1\n", "line 2: byte 4 is no UTF-8; save it as UTF-8"),
        (
            "cents.csv",
            b"usage_date_utc,cost_usd\n2026-10-14,x\n",
            'line 2, column cost_usd: "x" is not an amount',
        ),
        ("page.json", b'{"data": [], "has_more": true}', "a format that is not known"),
        (
            "more.json",
            COSTS.read_bytes().replace(b'"has_more": false', b'"has_more": true'),
            "has_more is true",
        ),
    ]
    for name, content, reason in cases:
        file = tmp_path / name
        file.write_bytes(content)
        result = run(conf, file)
        assert result.exit_code == 1
        assert f"Error: {file}: " in result.stderr
        assert reason in result.stderr


def test_a_file_that_is_too_large_or_twice_there_is_refused(conf: Path, tmp_path: Path) -> None:
    large = tmp_path / "large.csv"
    with large.open("wb") as opened:
        opened.truncate(MAX_FILE_BYTES + 1)
    assert "is larger than 65536 KiB; export fewer days at once" in run(conf, large).stderr
    copy = tmp_path / "copy.json"
    copy.write_bytes(COSTS.read_bytes())
    assert f"{copy}: is the same as {COSTS}; name it once" in run(conf, COSTS, copy).stderr
    mapping = tmp_path / "columns.toml"
    mapping.write_text("[columns]\nx = 1\n")
    assert f"{mapping}: columns: must be a table of texts" in run(conf, COSTS, "--columns", mapping).stderr
    assert f"{tmp_path}: is a directory".lower() in run(conf, tmp_path).stderr.lower()
    assert f"{tmp_path}/none.csv: no such file".lower() in run(conf, tmp_path / "none.csv").stderr.lower()


def test_a_name_of_the_vendor_controls_no_terminal(conf: Path, tmp_path: Path) -> None:
    file = tmp_path / "usage.json"
    file.write_bytes(USAGE.read_bytes().replace(b"gpt-5.4-2026-03-05", rb"x\nnot valued: y\u001b[31m"))
    shown = run(conf, file).stdout
    assert r"not valued: 2026-10-14 x\nnot valued: y\x1b[31m: it has tokens" in shown
    assert "\nnot valued: y" not in shown
    assert "\x1b" not in shown


def test_only_a_regular_file_is_opened(conf: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for arguments in ([pipe], [COSTS, "--columns", pipe], [Path("/dev/zero")]):
        refused = run(conf, *arguments)
        name = arguments[-1]
        assert (refused.exit_code, f"{name}: is not a regular file" in refused.stderr) == (1, True)


@given(
    st.binary(max_size=60),
    st.sampled_from([b"", b"\xef\xbb\xbf", b"Date,Slug,Usage,Prompt Tokens\n", b'{"data": [']),
)
def test_no_bytes_make_the_command_fail(content: bytes, start: bytes) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "export"
        file.write_bytes(start + content)
        with suppress(ClickException):
            read_exports([file], None)
        with suppress(ClickException):
            read_exports([file], file)


WRONG_OPTIONS = {
    ("--provider", "OPENAY"): 'unknown provider "OPENAY"',
    ("--month", "2026-13"): "'2026-13' is not a month such as 2026-10",
    ("--month", "2026-1"): "is not a month",
    ("--month", "2026-09"): "nothing in it is of 2026-09; export that month",
    ("--tolerance", "-1"): "Invalid value for '--tolerance'",
    ("--alias", "x"): "must be VENDORS_NAME=UPSTREAM_MODEL_ID",
    ("--key", "key_zz"): 'no line has the key "key_zz"; the keys are key_a1, key_b2',
}


@pytest.mark.parametrize("options", WRONG_OPTIONS)
def test_wrong_options_are_refused_by_name(conf: Path, options: tuple[str, ...]) -> None:
    result = run(conf, COSTS, *options)
    assert result.exit_code != 0
    assert WRONG_OPTIONS[options] in result.stderr


@pytest.mark.parametrize("key", ["=1", ""])
def test_a_key_without_a_name_is_refused(conf: Path, key: str) -> None:
    result = run(conf, COSTS, "--key", key)
    assert (result.exit_code, "must be NAME or NAME=NUMBER" in result.stderr) == (2, True)
