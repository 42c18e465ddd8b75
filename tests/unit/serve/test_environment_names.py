"""The names of a gateway's variables: as long as it lives, for its own configuration, and never a value."""

import os
from pathlib import Path

from addon.serve.environment_names import find_environment, published_environment

ENV = {"OPENAI_API_KEY": "sk-fake0000", "EMPTY": " ", "HOME": "/root"}


def test_names_are_published_until_the_end_and_values_never(tmp_path: Path) -> None:
    database, conf = tmp_path / "var" / "tollgate.db", tmp_path / "proxy.conf"
    assert find_environment(database, conf) is None
    with published_environment(database, conf, ENV):
        assert find_environment(database, conf) == (os.getpid(), {"OPENAI_API_KEY", "HOME"})
        assert find_environment(database, tmp_path / "other.conf") is None
        [file] = database.parent.iterdir()
        assert "sk-fake" not in file.read_text()
        assert file.stat().st_mode & 0o777 == 0o600
    assert list(database.parent.iterdir()) == []


def test_what_a_killed_gateway_left_counts_no_more_and_is_removed(tmp_path: Path) -> None:
    database, conf = tmp_path / "tollgate.db", tmp_path / "proxy.conf"
    with published_environment(database, conf, ENV):
        [file] = tmp_path.glob("environment-*.json")
        left = file.with_name(file.name.replace(str(os.getpid()), "1"))
        left.write_text('["LEFT"]')
        assert find_environment(database, conf) == (os.getpid(), {"OPENAI_API_KEY", "HOME"})
    assert find_environment(database, conf) is None
    with published_environment(database, conf, ENV):
        assert not left.exists()


def test_a_gateway_serves_where_its_folder_cant_be_written(tmp_path: Path) -> None:
    (tmp_path / "var").touch()
    with published_environment(tmp_path / "var" / "tollgate.db", tmp_path / "proxy.conf", ENV):
        assert (tmp_path / "var").read_bytes() == b""
