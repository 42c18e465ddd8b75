"""The words of error messages: key paths, suggestions and errors of the operating system."""

from pathlib import Path

import pytest

from addon.settings.errors import Entry, SettingsError, describe_error, join_key_path, suggest_name


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("listen", "port"), "listen.port"),
        (("keys", 0, "hash"), "keys[0].hash"),
        (("keys", Entry(0, "ci"), "hash"), "keys[0] (ci).hash"),
        (("platform_keys", Entry(1, "")), "platform_keys[1]"),
        (("gpt-4.1", "family"), '"gpt-4.1".family'),
        (("a b",), '"a b"'),
        ((), ""),
    ],
)
def test_a_key_path_is_written_as_in_toml(path: tuple[str | int | Entry, ...], text: str) -> None:
    assert join_key_path(*path) == text


@pytest.mark.parametrize(
    ("name", "names", "text"),
    [
        ("prot", ["port", "host"], '; did you mean "port"?'),
        ("openai", ["OPENAI", "GROQ"], '; did you mean "OPENAI"?'),
        ("zzz", ["port", "host"], "; known are host, port"),
        ("zzz", [f"name-{number}" for number in range(13)], ""),
        ("zzz", [], ""),
    ],
    ids=["near", "another case", "few", "many", "none"],
)
def test_the_nearest_name_is_suggested_or_a_few_are_listed(name: str, names: list[str], text: str) -> None:
    assert suggest_name(name, names) == text


def test_an_error_is_one_line_with_its_file() -> None:
    assert describe_error(FileNotFoundError(2, "No such file", "a.toml")) == "a.toml: No such file"
    assert describe_error(OSError(28, "No space left")) == "No space left"
    assert describe_error(ValueError("is wrong")) == "is wrong"
    assert str(SettingsError(Path("a.toml"), "name", "is required")) == "a.toml: name: is required"
    assert str(SettingsError(Path("a.toml"), "", "is not TOML")) == "a.toml: is not TOML"
