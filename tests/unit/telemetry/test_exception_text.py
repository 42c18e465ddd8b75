"""The text of exceptions in the log."""

import errno
import json
import logging

from rig.log_lines import Lines


def test_a_traceback_is_one_string_on_the_same_line_without_any_message(lines: Lines) -> None:
    said = "a-private-word"
    try:
        try:
            raise KeyError(said)
        except KeyError as error:
            raise RuntimeError(f"Incorrect API key provided: {said}") from error
    except RuntimeError:
        logging.getLogger("tollgate.gateway").exception("failed with %s", "Bearer fake0000")
    line = lines.one
    assert (line["level"], line["message"]) == ("error", "failed with Bearer ***")
    assert line["exception"].startswith("Traceback (most recent call last):\n")
    assert "KeyError\n\nThe above exception led to:" in line["exception"]
    assert line["exception"].endswith("\nRuntimeError")
    assert said not in json.dumps(line)


def test_a_message_of_the_system_is_logged(lines: Lines) -> None:
    try:
        raise OSError(errno.ENOSPC, "whatever", "/a-private-word")
    except OSError:
        logging.getLogger("tollgate").exception("failed")
    assert lines.one["exception"].endswith("\nOSError: No space left on device")
