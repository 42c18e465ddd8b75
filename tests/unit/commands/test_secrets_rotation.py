"""``tollgate secrets rotate`` seals every secret again. A gateway serves before, during and after it."""

import re
import tomllib
from pathlib import Path

import httpx
import pytest
from click.testing import Result
from conftest import HELLO, StartGateway
from hypothesis import given
from hypothesis import strategies as st
from rig.bounds import BOUND_S
from rig.commands import run_alone
from rig.configuration import PROVIDER_KEY, model, provider
from rig.gateway import Gateway
from rig.secret_commands import BOTH, NEW, OLD, OTHER, OWN_TOKEN, SECRET, TOKEN, VARIABLE, run
from rig.settings_files import contents, edit, write_files
from rig.upstream import Upstream

from addon.commands.secrets import rotate_secrets
from addon.settings.sealed_secrets import MasterKeys
from addon.settings.settings import load_settings

PROVIDERS = "catalog_data/providers.toml"
ACME = "policies/workspaces/acme.toml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files with three sealed secrets of the old key: one is there twice, and one is in a comment."""
    write_files(tmp_path)
    sealed = f"platform_key = 'sealed:{TOKEN}' # once \"sealed:{TOKEN}\""
    edit(tmp_path / PROVIDERS, 'platform_key = "env:OPENAI_KEY"', sealed)
    edit(tmp_path / PROVIDERS, '"env:GROQ_KEY"', f'"sealed:{TOKEN}"')
    edit(tmp_path / ACME, "", f'\n[byok]\nGROQ = {{ secret = "sealed:{OWN_TOKEN}", routing = true }}\n')
    return tmp_path


def rotate(folder: Path, *arguments: str, keys: str = BOTH) -> Result:
    conf = folder / "proxy.conf"
    return run("rotate", *arguments, "--conf", conf, folder / PROVIDERS, folder / ACME, keys=keys)


def test_rotate_changes_the_sealed_values_and_no_other_bytes(folder: Path) -> None:
    before, loaded = contents(folder), load_settings(folder / "proxy.conf", {VARIABLE: OLD})
    (folder / ACME).chmod(0o640)
    result = rotate(folder)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        f"{folder / PROVIDERS}: 2 of 2 sealed secrets sealed again\n"
        f"{folder / ACME}: 1 of 1 sealed secrets sealed again\n"
    )
    after = contents(folder)
    assert {file for file in before if before[file] != after[file]} == {folder / PROVIDERS, folder / ACME}
    for file, token in ((folder / PROVIDERS, TOKEN.encode()), (folder / ACME, OWN_TOKEN.encode())):
        fresh = set(re.findall(rb"sealed:(gAAAAA[\w=-]+)", after[file])) - {token}
        assert len(fresh) == 1
        assert after[file].replace(fresh.pop(), token) == before[file]
    assert after[folder / PROVIDERS].count(TOKEN.encode()) == 1, "the comment's stays"
    assert (folder / ACME).stat().st_mode & 0o777 == 0o640
    after_it = load_settings(folder / "proxy.conf", {VARIABLE: NEW})
    assert (after_it.providers, after_it.workspaces) == (loaded.providers, loaded.workspaces)


def test_rotating_again_changes_nothing(folder: Path) -> None:
    rotate(folder)
    once = contents(folder)
    result = rotate(folder)
    assert (result.exit_code, result.stdout.count(": 0 of ")) == (0, 2)
    assert contents(folder) == once


def test_check_counts_and_writes_nothing(folder: Path) -> None:
    before = contents(folder)
    waiting = rotate(folder, "--check")
    assert waiting.exit_code == 1
    assert f"{folder / PROVIDERS}: 2 of 2 sealed secrets to seal again\n" in waiting.stdout
    assert contents(folder) == before
    rotate(folder)
    done = rotate(folder, "--check", keys=NEW)
    assert (done.exit_code, done.stdout.count(": 0 of ")) == (0, 2)


# the token that is added to the workspace's file, the wrong key, part of the reason
UNOPENED = {
    "another key's": (
        MasterKeys(OTHER).seal(SECRET),
        "byok.OPENAI.secret",
        "is damaged, or sealed with another master key",
    ),
    "half a token": (TOKEN[:-4], "byok.OPENAI.secret", "is not a whole token"),
}


@pytest.mark.parametrize("case", UNOPENED)
def test_nothing_is_written_if_one_value_can_not_be_sealed_again(folder: Path, case: str) -> None:
    token, key, reason = UNOPENED[case]
    edit(folder / ACME, "[byok]\n", f'[byok]\nOPENAI.secret = "sealed:{token}"\n')
    before = contents(folder)
    for arguments in ((), ("--check",)):
        result = rotate(folder, *arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"Error: {folder / ACME}: {key}")
        assert reason in result.stderr
        assert not [hidden for hidden in (token, SECRET, OLD, NEW) if hidden in result.stderr]
    assert contents(folder) == before


@pytest.mark.parametrize(
    "value", [f'"sealed:\\u0067{TOKEN[1:]}"', f'"""sealed:{TOKEN[:9]}\\\n  {TOKEN[9:]}"""']
)
def test_a_token_that_is_escaped_or_split_must_be_edited_by_hand(tmp_path: Path, value: str) -> None:
    file = tmp_path / "acme.toml"
    file.write_text(f"[byok.OPENAI]\nsecret = {value}\n")
    assert tomllib.loads(file.read_text())["byok"]["OPENAI"]["secret"] == f"sealed:{TOKEN}"
    before = file.read_text()
    for arguments in ((), ("--check",)):
        result = run("rotate", *arguments, file, keys=BOTH)
        assert (result.exit_code, result.stdout) == (1, "")
        assert (
            "acme.toml: can't be edited in place; write each sealed secret as one plain string"
            in result.stderr
        )
    assert file.read_text() == before


def test_a_file_named_twice_or_by_a_link_is_rotated_once(folder: Path) -> None:
    real = (folder / ACME).rename(folder / "real.toml")
    (folder / ACME).symlink_to(real)
    result = run("rotate", folder / ACME, real, folder / ACME, keys=BOTH)
    assert (result.exit_code, result.stdout.count("1 of 1 sealed secrets sealed again")) == (0, 1)
    assert (folder / ACME).is_symlink()
    assert OWN_TOKEN not in real.read_text()


FORMS = {
    "a table": "[byok.P{n}]\nsecret = {q}{v}{q}\nrouting = true",
    "a provider": '[P{n}]\nplatform_key={q}{v}{q}#{v}\nbase_url = "x"',
    "a provider of several keys": '[P{n}]\nplatform_keys = ["env:A", {q}{v}{q}, "file:b"] # {v}',
    "an inline table": "P{n} = {{ platform_key = {q}{v}{q} }}",
    "dotted keys": '"P{n}"."platform_key" = {q}{v}{q}',
}


@given(
    secrets_in_file=st.lists(st.tuples(st.sampled_from([OLD, NEW]), st.text(max_size=20)), max_size=4),
    form=st.sampled_from(list(FORMS.values())),
    quote=st.sampled_from(['"', "'", '"""']),
    line_end=st.sampled_from(["\n", "\r\n"]),
    has_comments=st.booleans(),
)
def test_a_rotation_changes_only_the_tokens_of_values(
    secrets_in_file: list[tuple[str, str]], form: str, quote: str, line_end: str, has_comments: bool
) -> None:
    tokens = [MasterKeys(key).seal(secret) for key, secret in secrets_in_file]
    lines = ["# é"]
    for number, token in enumerate(tokens):
        lines += [f"# was sealed:{token}"] * has_comments
        lines += form.format(n=number, v=f"sealed:{token}", q=quote).split("\n")
    text = line_end.join([*lines, ""])
    result = rotate_secrets(Path("acme.toml"), text, MasterKeys(BOTH))

    assert (result.changed, result.found) == (sum(key == OLD for key, _ in secrets_in_file), len(tokens))
    table = tomllib.loads(result.text)
    holders = table.get("byok", table).values()
    several = [one.get("platform_keys", [None, None])[1] for one in holders]
    alone = [one.get("secret", one.get("platform_key")) for one in holders]
    fresh = [str(one or other).removeprefix("sealed:") for one, other in zip(alone, several, strict=True)]
    assert [MasterKeys(NEW).unseal(token) for token in fresh] == [secret for _, secret in secrets_in_file]
    around = [re.split(f"{quote}sealed:[^'\"]+{quote}", one) for one in (text, result.text)]
    assert around[0] == around[1]


@pytest.fixture
def own(start_gateway: StartGateway, tmp_path: Path, upstream: Upstream) -> Gateway:
    """A gateway whose platform key is sealed with the old master key, which is in a file."""
    key_path = tmp_path / "master.keys"
    key_path.write_text(f"{OLD}\n")
    key_path.chmod(0o600)
    sealed = run_alone(
        tmp_path, "secrets", "seal", stdin=f"{PROVIDER_KEY}\n", **{VARIABLE: OLD}
    ).stdout.strip()
    return start_gateway(
        folder=tmp_path,
        providers={"TESTER": provider(upstream.base_url, platform_key=sealed)},
        models={"tester-large": model()},
        environment={f"{VARIABLE}_FILE": str(key_path)},
    )


def test_a_gateway_serves_with_a_sealed_key_before_during_and_after_a_rotation(
    own: Gateway, upstream: Upstream
) -> None:
    file, key_path = own.folder / PROVIDERS, own.folder / "master.keys"
    tokens = re.findall(r"gAAAAA[\w=-]+", file.read_text())

    def calls_go_through() -> None:
        url, body = f"{own.url}/v1/chat/completions", {"messages": HELLO}
        answer = httpx.post(url, headers=own.headers, json=body, timeout=BOUND_S, trust_env=False)
        assert answer.status_code == 200
        assert upstream.last.header("authorization") == f"Bearer {PROVIDER_KEY}"

    calls_go_through()
    key_path.write_text(f"{NEW}\n{OLD}\n")
    result = run_alone(own.folder, "secrets", "rotate", PROVIDERS, **{f"{VARIABLE}_FILE": str(key_path)})
    assert result.stdout == f"{PROVIDERS}: 1 of 1 sealed secrets sealed again\n", result.stderr
    own.wait_for_log(lambda line: line["message"].startswith("settings reloaded"))
    calls_go_through()

    key_path.write_text(f"{OTHER}\n")
    failed = own.wait_for_log(lambda line: line["level"] == "error")
    assert (
        "providers.toml: TESTER.platform_key: is damaged, or sealed with another master key"
        in failed["message"]
    )
    calls_go_through()
    key_path.write_text(f"{NEW}\n")
    own.wait_for_log(lambda line: line["message"] == "the settings load again")
    calls_go_through()
    tokens += re.findall(r"gAAAAA[\w=-]+", file.read_text())
    assert len(set(tokens)) == 2
    own.assert_no_secret_logged([*tokens, OLD, NEW, OTHER])
