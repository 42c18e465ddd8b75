"""The errors of a file: all of them, each with its key, and what to change."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from addon.settings.catalog_schema import FAMILIES_FILE, MODELS_FILE
from addon.settings.conf_schema import ProxyConf
from addon.settings.errors import SettingsError
from addon.settings.validation import validate
from addon.settings.workspace_schema import WorkspaceTable

TOP = "belongs to the top of the file, above the first [table]"
HASH = f'hash = "sha256:{"0" * 64}"'


def errors_of(schema: Any, text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        validate(schema, Path("f.toml"), tomllib.loads(text))
    assert all(error.file == Path("f.toml") for error in caught.value.all)
    return [f"{error.key}: {error.reason}" for error in caught.value.all]


CASES = {
    "a key of the top below a table of an array": (
        WorkspaceTable,
        f'name = "A"\n[[keys]]\nid = "ci"\n{HASH}\nplan = "pro"\n',
        [f'keys[0] (ci).plan: "plan" {TOP}'],
    ),
    "a key of the top below a table of tables": (
        WorkspaceTable,
        'name = "A"\n[byok]\nplan = "pro"\n',
        [f'byok.plan: "plan" {TOP}'],
    ),
    "the name of a list in an entry of another": (
        WorkspaceTable,
        f'name = "A"\n[[keys]]\nid = "ci"\n{HASH}\n[[keys.rules]]\n',
        ["keys[0] (ci).rules: unknown key"],
    ),
    "a misspelled key that is required": (
        WorkspaceTable,
        f'nam = "A"\n[[keys]]\nidd = "ci"\n{HASH}\n',
        ['keys[0].idd: unknown key; did you mean "id"?', 'nam: unknown key; did you mean "name"?'],
    ),
    "a label that is wrong itself": (
        WorkspaceTable,
        'name = "A"\n[[heuristics]]\nwhen = "never"\nmodel = "x"\n',
        ["heuristics[0].when: must be 'images', 'tools', 'json' or 'prompt_tokens_above'"],
    ),
    "a slug with a dot": (
        MODELS_FILE,
        '[gpt-4.1]\nprovider = "OPENAI"\n[gpt-4.1-mini]\nprovider = "OPENAI"\n[kimi.2.6]\nprovider = "X"',
        [
            'gpt-4.1: is read as a table inside a table; quote it: ["gpt-4.1"]',
            'gpt-4.1-mini: is read as a table inside a table; quote it: ["gpt-4.1-mini"]',
            'kimi.2: is read as a table inside a table; quote it: ["kimi.2.6"]',
        ],
    ),
    "a misspelled table of a family": (
        FAMILIES_FILE,
        "[chat.estimatr]\nbase_tokens = 1\n",
        ['chat.estimatr: unknown key; did you mean "estimator"?'],
    ),
    "a key in the wrong section": (
        ProxyConf,
        "port = 1\n[limits]\ndrain_timeout_s = 3\n",
        [
            "limits.drain_timeout_s: unknown key; it belongs to [listen]",
            "port: unknown key; it belongs to [listen] or [admin]",
        ],
    ),
    "several errors of several tables": (
        ProxyConf,
        '[listen]\nport = "80"\nworkers = 0\n[limits]\npro_rpm = 0\n',
        [
            "listen.port: must be a valid integer",
            "listen.workers: must be greater than or equal to 1",
            "limits.pro_rpm: must be greater than or equal to 1",
        ],
    ),
}


@pytest.mark.parametrize(("schema", "text", "errors"), CASES.values(), ids=CASES)
def test_every_error_of_a_file_says_what_to_change(schema: Any, text: str, errors: list[str]) -> None:
    found = errors_of(schema, text)
    assert len(found) == len(errors)
    for line, start in zip(found, errors, strict=True):
        assert line.startswith(start)
