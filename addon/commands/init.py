"""``tollgate init``: makes a deployment folder, which has all that belongs to one gateway. Source: docs/commands.md.

Upgrades of the program never touch it. The files are copies of ``deployment_files``.
"""

import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from addon.commands.errors import report_errors
from addon.commands.init_move import UNFINISHED, move_gateway
from addon.settings.value_types import SHIPPED_CATALOG
from addon.text.toml import load_toml

_TEMPLATES: Final = Path(__file__).with_name("deployment_files")
_FOLDERS: Final = ("catalog", "policies", "policies/workspaces")
_MAY_BE_THERE: Final = {".git"}
_MAX_NAMED: Final = 5

_KEYS_ENV: Final = """\
# The keys of this gateway's providers, for the shell and for systemd's EnvironmentFile. Mode 0600, and not in git.
# Remove the "#" before a name, and write the key after "=". A provider without a key serves customers' own keys only.
# While no provider has a key, the built-in sandbox answers.
"""

_NEXT: Final = """\
Made {folder}. Its README.md says what is where. Next:

  set -a; . {keys}; set +a
  export TOLLGATE_CONF={conf}
  {program} serve
"""


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "source",
    metavar="FOLDER",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Move the gateway in FOLDER, such as the checkout, with its ledger.",
)
def init(folder: Path, source: Path | None) -> None:
    """Make a deployment folder DIR for one gateway: its configuration, catalog overlay, policies and notes.

    DIR must be new or empty. Only its owner can read the files.
    """
    folder = folder.absolute()
    with report_errors():
        _require_empty(folder)
        if source is None:
            _make(folder, _make_texts())
        else:
            new = folder.parent.resolve() / folder.name
            click.echo(move_gateway(source.resolve(), new, lambda without: _make_rest(folder, without)))
    names = {"folder": folder, "keys": folder / "keys.env", "conf": folder / "proxy.conf"}
    quoted = {name: shlex.quote(str(path)) for name, path in names.items()}
    click.echo(
        _NEXT.format(**quoted, program=shlex.quote(str(SHIPPED_CATALOG.with_name("run.sh")))), nl=False
    )


def _make_rest(folder: Path, without: set[str]) -> None:
    """Make the folder without these files, and without tables of an overlay where they have one."""
    texts = {name: text for name, text in _make_texts().items() if name not in without}
    _make(folder, texts)


def _require_empty(folder: Path) -> None:
    if not folder.exists():
        return
    names = sorted(set(os.listdir(folder)) - _MAY_BE_THERE)
    if UNFINISHED in names:
        script = shlex.quote(str(folder / UNFINISHED))
        raise click.ClickException(
            f"{folder}: a move into it was cut off. Undo it: sh {script}; then remove {folder}, and begin again"
        )
    if names:
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        raise click.ClickException(
            f"{folder}: is not empty: {', '.join(names[:_MAX_NAMED])}{more} in the way; name a new folder"
        )


def _make_texts() -> dict[str, str]:
    """Return the text of each file by its path in the folder."""
    found = [file for file in sorted(_TEMPLATES.rglob("*")) if file.is_file()]
    texts = {str(file.relative_to(_TEMPLATES)): file.read_text(encoding="utf-8") for file in found}
    texts[".gitignore"] = texts.pop("gitignore")
    texts["policies/workspaces/.gitkeep"] = ""
    texts["keys.env"] = _KEYS_ENV + "".join(f"#{name}=\n" for name in _find_variables())
    return texts


def _find_variables() -> list[str]:
    """Return the variables of platform keys that the shipped catalog names, in its order."""
    providers = load_toml((SHIPPED_CATALOG / "providers.toml").read_text(encoding="utf-8"))
    secrets = [str(table.get("platform_key", "")) for table in providers.values()]
    found = (secret.removeprefix("env:") for secret in secrets if secret.startswith("env:"))
    return list(dict.fromkeys(found))  # Two providers may share a key.


def _make(folder: Path, texts: dict[str, str]) -> None:
    """Write the files. Remove what was made when that fails. Raises OSError."""
    made: list[Path] = []
    try:
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
            made.append(folder)
        for name in _FOLDERS:
            (folder / name).mkdir(mode=0o700)
            made.append(folder / name)
        for name, text in texts.items():
            # Created by this command, so a file that appeared meanwhile is never overwritten.
            with open(os.open(folder / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as stream:
                made.append(folder / name)
                stream.write(text.encode())
    except BaseException:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        raise
