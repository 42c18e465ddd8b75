"""``tollgate explain``: the body, the workspace, the key and the ledger that it reads, and the errors of wrong use."""

import json
import os
from pathlib import Path

import pytest
from rig import explained
from rig.commands import run_alone
from rig.explain_commands import asked, record, run, write_folder
from rig.settings_files import edit


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path)
    return tmp_path


# The body, the workspace and the key.


def test_a_body_may_be_in_a_file(folder: Path) -> None:
    file = folder / "body.json"
    file.write_text(json.dumps(asked(max_tokens=3)), encoding="utf-8")
    result = run(folder, "--workspace", "plain", "--json", str(file))
    assert json.loads(result.stdout)["attempts"][0]["caps"]["sent"] == 3


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"messages": "\xff"}', b'{"messages": [], "messages": []}']
)
def test_an_invalid_body_is_a_refusal_and_not_an_error(folder: Path, body: bytes) -> None:
    found = record(folder, "plain", body)
    assert (found["refusal"]["step"], found["refusal"]["status"]) == ("body", 400)
    assert found["attempts"] == []


def test_no_more_of_an_endless_body_is_read_than_a_call_may_have(folder: Path) -> None:
    result = run(folder, "--workspace", "plain", "--json", "/dev/zero")
    assert json.loads(result.stdout)["refusal"]["step"] == "size"


def test_the_first_active_key_is_the_default(folder: Path) -> None:
    file = folder / "policies" / "workspaces" / "plain.toml"
    for name in ("plain", "retired"):
        edit(file, f'id = "{name}"', f'id = "{name[::-1]}"')
    edit(file, "active = true", "active = maybe")
    edit(file, "active = false", "active = true")
    edit(file, "active = maybe", "active = false")
    assert record(folder, "plain", asked())["key_id"] == "deriter"
    edit(file, "active = true", "active = false")
    found = record(folder, "plain", asked())
    assert (found["refusal"]["step"], found["refusal"]["code"]) == ("key", "invalid_api_key")


def test_the_models_and_the_expiry_of_a_key_are_explained(folder: Path) -> None:
    file = folder / "policies" / "workspaces" / "plain.toml"
    edit(file, "active = true", 'active = true\nmodels = ["nothing*"]')
    found = record(folder, "plain", asked(), "--key", "plain")
    assert (found["refusal"]["step"], found["refusal"]["code"]) == ("routing", "byok_required")
    assert "it may use nothing*" in found["refusal"]["message"]
    edit(file, "active = true", "active = true\nexpires_at = 2026-01-01T00:00:00Z")
    found = record(folder, "plain", asked(), "--key", "plain")
    assert (found["refusal"]["step"], found["refusal"]["code"]) == ("key", "invalid_api_key")
    assert found["refusal"]["why"] == "key plain expired at 2026-01-01T00:00:00.000+00:00"


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("--workspace", "plane"), 1, 'unknown workspace "plane"; did you mean "plain"?'),
        (
            ("--workspace", "plain", "--key", "retried"),
            1,
            'unknown key "retried" of workspace plain; did you mean "retired"?',
        ),
        ((), 2, "Missing option '--workspace'"),
        (("--workspace", "plain", "--jsn"), 2, "No such option"),
    ],
)
def test_wrong_use_gives_one_line(folder: Path, words: tuple[str, ...], status: int, message: str) -> None:
    result = run(folder, *words, body=asked())
    assert (result.exit_code, result.stdout) == (status, "")
    assert message in result.stderr


def test_a_body_that_can_not_be_read_is_an_error(folder: Path) -> None:
    result = run(folder, "--workspace", "plain", str(folder / "none.json"))
    assert (result.exit_code, result.stderr) == (
        1,
        f"Error: {folder / 'none.json'}: No such file or directory\n",
    )
    assert run(folder, "--workspace", "plain").exit_code == 2


def test_files_that_do_not_load_are_an_error(folder: Path) -> None:
    edit(folder / "proxy.conf", "[listen]", "[listne]")
    result = run(folder, "--workspace", "plain", body=asked())
    assert (result.exit_code, result.stdout) == (1, "")
    assert 'did you mean "listen"?' in result.stderr


def test_a_workspace_without_keys_is_an_error(folder: Path) -> None:
    (folder / "policies" / "workspaces" / "new.toml").write_text('name = "New"\n', encoding="utf-8")
    result = run(folder, "--workspace", "new", body=asked())
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: workspace new has no key: tollgate keys create new\n",
    )


def test_a_missing_ledger_is_not_created(folder: Path) -> None:
    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    before = files()
    assert record(folder, "capped", asked())["refusal"] is None
    assert record(folder, "poor", asked())["refusal"]["code"] == "payment_required"
    assert files() == before
    assert not (folder / "var").exists()


def test_it_is_a_command_of_the_command_line(folder: Path) -> None:
    words = ("explain", "--workspace", "plain", "--conf", str(folder / "proxy.conf"), "--json", "-")
    done = run_alone(folder, *words, stdin=json.dumps(asked()), **explained.ENVIRONMENT)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["decided_by"] == "default"
    assert os.sep in json.loads(done.stdout)["attempts"][0]["url"]
