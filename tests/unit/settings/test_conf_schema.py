"""A wrong value in proxy.conf is refused with the file, the key and the reason."""

from pathlib import Path

import pytest
from rig.settings_files import CONF, assert_refused

# file, old passage ("" = the end), new passage, key, part of the reason
EDITS = {
    "unknown key": (CONF, "port = 9000", "prot = 9000", "listen.prot", 'unknown key; did you mean "port"?'),
    "unknown section": (CONF, "[listen]", "[listne]", "listne", 'unknown key; did you mean "listen"?'),
    "unknown key with braces": (CONF, "port", '"{port}"', 'listen."{port}"', 'did you mean "port"?'),
    "unknown key unlike any other": (
        CONF,
        "port",
        "zzz",
        "listen.zzz",
        "unknown key; known are drain_timeout_s, host",
    ),
    "section that is not a table": (CONF, "", "[[limits]]\n", "limits", "must be a table"),
    "text for a port": (CONF, "9000", '"9000"', "listen.port", "must be a valid integer"),
    "boolean for a port": (CONF, "9000", "true", "listen.port", "must be a valid integer"),
    "port too high": (CONF, "9000", "65536", "listen.port", "65535"),
    "port too low": (CONF, "9000", "-1", "listen.port", "greater than or equal to 0"),
    "the public port as admin port": (CONF, "9000", "8081", "admin.port", "must differ from listen.port"),
    "host of two lines": (CONF, "9000", '1\nhost = "a\\nb"', "listen.host", "one line"),
    "empty host": (CONF, "9000", '1\nhost = ""', "listen.host", "not empty"),
    "too many workers": (CONF, "9000", "1\nworkers = 257", "listen.workers", "less than or equal to 256"),
    "no worker": (CONF, "9000", "1\nworkers = 0", "listen.workers", "greater than or equal to 1"),
    "negative drain": (CONF, "9000", "1\ndrain_timeout_s = -1", "listen.drain_timeout_s", "equal to 0"),
    "no certificate": (
        CONF,
        "9000",
        '1\ntls_certificate = "x.pem"',
        "listen.tls_certificate",
        "no such file",
    ),
    "wrong certificate": (
        CONF,
        "9000",
        f'1\ntls_certificate = "{CONF}"',
        "listen.tls_certificate",
        "not a PEM file",
    ),
    "unknown backend": (CONF, "", '[state]\nbackend = "mysql"\n', "state.backend", "'sqlite' or 'redis'"),
    "redis_url": (
        CONF,
        "",
        '[state]\nredis_url = "http://x"\n',
        "state.redis_url",
        "must begin with redis://",
    ),
    "extra policies": (
        CONF,
        "",
        '[policies]\nextra = ["x.py"]\n',
        "policies.extra[0]",
        'without ".py"',
    ),
    "extra that is not an array": (
        CONF,
        "",
        '[policies]\nextra = "x"\n',
        "policies.extra",
        "must be an array",
    ),
    "no timeout": (CONF, "", "[upstream]\nidle_timeout_s = 0\n", "upstream.idle_timeout_s", "greater than 0"),
    "negative timeout": (
        CONF,
        "",
        "[upstream]\nconnect_timeout_s = -5\n",
        "upstream.connect_timeout_s",
        "than 0",
    ),
    "infinite timeout": (CONF, "", "[upstream]\nidle_timeout_s = inf\n", "upstream.idle_timeout_s", "finite"),
    "too large a body": (
        CONF,
        "",
        "[limits]\nmax_request_bytes = 134217729\n",
        "limits.max_request_bytes",
        "less than or equal to 134217728",
    ),
    "a body of 0 bytes": (
        CONF,
        "",
        "[limits]\nmax_request_bytes = 0\n",
        "limits.max_request_bytes",
        "equal to 1",
    ),
    "no requests": (CONF, "", "[limits]\npro_rpm = 0\n", "limits.pro_rpm", "equal to 1"),
    "float markup": (CONF, '"4"', "4.0", "billing.markup_percent", 'must be a string such as "4"'),
    "negative markup": (CONF, '"4"', '"-4"', "billing.markup_percent", "must be a percentage"),
    "markup as words": (CONF, '"4"', '"NaN"', "billing.markup_percent", "must be a percentage"),
    "sandbox as text": (
        CONF,
        "",
        '[sandbox]\nenabled = "yes"\n',
        "sandbox.enabled",
        'true, false or "auto"',
    ),
    "sandbox as a number": (CONF, "", "[sandbox]\nenabled = 1\n", "sandbox.enabled", 'true, false or "auto"'),
    "empty path": (CONF, "", '[paths]\nworkspaces = ""\n', "paths.workspaces", "must be a path"),
    "path as a number": (CONF, "", "[paths]\ncatalog = 3\n", "paths.catalog", "must be a path"),
    "TOML syntax": (CONF, "port = 9000", "port 9000", "", "line 2"),
    "TOML key twice": (CONF, "port = 9000", "port = 9000\nport = 1", "", "line 3"),
    "very long number": (CONF, "9000", "9" * 5000, "", "is not TOML"),
    "very deep arrays": (CONF, "9000", "[" * 100_000, "", "nested too deeply"),
}


@pytest.mark.parametrize("case", EDITS)
def test_a_wrong_edit_is_refused_with_file_key_and_reason(tmp_path: Path, case: str) -> None:
    assert_refused(tmp_path, *EDITS[case])
