"""A reference is allowed if a pattern matches its name, or the real path of its file."""

from pathlib import Path

import pytest
from rig.settings_files import assert_refused

from addon.settings.allowed_references import is_allowed
from addon.settings.sealed_secrets import MasterKeys, make_master_key
from addon.settings.value_types import parse_secret


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of workspaces with files of secrets, and links out of it and into it."""
    folder = tmp_path / "workspaces"
    (folder / "secrets" / "deep").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    for file in ("secrets/acme", "secrets/deep/acme", "../outside/key", "acme.toml"):
        (folder / file).write_text("x")
    (folder / "secrets" / "out").symlink_to("../../outside/key")
    (folder / "secrets" / "in").symlink_to("acme")
    (folder / "secrets" / "up").symlink_to("..")
    (folder / "alias").symlink_to("secrets")
    (folder / "current").symlink_to("../outside/key")
    return folder


# patterns, reference, whether it is allowed
TABLE: tuple[tuple[tuple[str, ...], str, bool], ...] = (
    ((), "env:BYOK_ACME", False),
    ((), "file:secrets/acme", False),
    (("env:BYOK_*",), "env:BYOK_ACME", True),
    (("env:BYOK_*",), "env:BYOK_", True),
    (("env:BYOK_*",), "env:byok_acme", False),
    (("env:BYOK_*",), "env:MY_BYOK_ACME", False),
    (("env:BYOK_*_KEY",), "env:BYOK_ACME_KEY", True),
    (("env:BYOK_*_KEY",), "env:BYOK_ACME_KEY_2", False),
    (("env:ACME",), "env:ACME", True),
    (("env:ACME",), "env:ACME2", False),
    (("env:*",), "file:secrets/acme", False),
    (("file:*",), "env:acme", False),
    (("env:A", "file:secrets/*"), "file:secrets/acme", True),
    (("file:secrets/*",), "file:./secrets//acme", True),
    (("file:secrets/*",), "file:secrets/missing", True),
    (("file:secrets/*",), "file:secrets/deep/acme", False),
    (("file:secrets/*/acme",), "file:secrets/deep/acme", True),
    (("file:secrets/a*e",), "file:secrets/acme", True),
    (("file:secrets/a*e",), "file:secrets/missing", False),
    (("file:secrets/*",), "file:acme.toml", False),
    (("file:secrets/*",), "file:secrets/../acme.toml", False),
    (("file:secrets/*",), "file:secrets/../../outside/key", False),
    (("file:secrets/*",), "file:/etc/passwd", False),
    (("file:secrets/*",), "file:secrets/out", False),
    (("file:secrets/*",), "file:secrets/in", True),
    (("file:secrets/*",), "file:secrets/up/acme.toml", False),
    (("file:secrets/*",), "file:alias/acme", True),
    (("file:alias/*",), "file:secrets/acme", True),
    (("file:current",), "file:current", True),
    (("file:current",), "file:../outside/key", True),
    (("file:../outside/*",), "file:current", True),
    (("file:*",), "file:acme.toml", True),
    (("file:*",), "file:secrets/acme", False),
    (("file:*",), "file:../outside/key", False),
    (("file:.*",), "file:acme.toml", False),
    (("file:secrets/[a]*e",), "file:secrets/acme", False),
    (("file:secrets/[a]*e",), "file:secrets/[a]cme", True),
    (("file:secrets/?cm*",), "file:secrets/acme", False),
)


@pytest.mark.parametrize(("patterns", "reference", "expected"), TABLE)
def test_a_reference_is_allowed(
    folder: Path, patterns: tuple[str, ...], reference: str, *, expected: bool
) -> None:
    assert is_allowed(parse_secret(reference), patterns, folder) is expected


def test_an_absolute_pattern_follows_links_of_its_folder(folder: Path) -> None:
    patterns = (f"file:{folder}/alias/*",)
    assert is_allowed(parse_secret(f"file:{folder}/secrets/acme"), patterns, folder)
    assert not is_allowed(parse_secret(f"file:{folder}/acme.toml"), patterns, folder)


def test_the_star_in_the_name_of_a_real_folder_is_no_pattern(folder: Path) -> None:
    (folder / "*").mkdir()
    (folder / "link").symlink_to("*")
    assert is_allowed(parse_secret("file:*/key"), ("file:link/key",), folder)
    assert not is_allowed(parse_secret("file:secrets/key"), ("file:link/key",), folder)


def test_no_sealed_token_is_allowed(folder: Path) -> None:
    token = MasterKeys(make_master_key()).seal("secret")
    assert not is_allowed(parse_secret(f"sealed:{token}"), ("env:*", "file:*"), folder)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ('"BYOK_*"', "must be a reference such as"),
        ('"sealed:*"', "must be a reference such as"),
        ('"env:"', "must be a reference such as"),
        ('"env:A/*"', "must be a reference such as"),
        ('"env:1A"', "must be a reference such as"),
        ('"file:"', "must be a reference such as"),
        (r'"file:a\u0000"', "must be a reference such as"),
        ('"file:*/../x"', 'must not have both "*" and ".."'),
        ('"env:A", "env:A"', 'names "env:A" twice'),
    ],
)
def test_a_wrong_pattern_is_refused(tmp_path: Path, pattern: str, reason: str) -> None:
    key = "admin.references" if "twice" in reason else "admin.references[0]"
    new = f"[admin]\nreferences = [{pattern}]\n\n[billing]"
    assert_refused(tmp_path, "proxy.conf", "[billing]", new, key, reason)
