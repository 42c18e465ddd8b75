"""axe-core, which finds faults of accessibility in a page. npm fetches it into an ignored folder of the project."""

import hashlib
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from rig.configuration import ROOT

VERSION = "4.14.1"
SHA512 = (
    "1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b73"
    "4f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5"
)
"""The hash of the package, as npm publishes it."""

INSTALL_BOUND_S = 120.0
"""How long npm may take to fetch the package."""

_FILE = ROOT / ".axe" / f"axe-{VERSION}.min.js"


def axe_source() -> str:
    """Return the script, and fetch it on the first call. Raise RuntimeError with the reason when that fails."""
    if not _FILE.exists():
        _fetch()
    return _FILE.read_text(encoding="utf-8")


def _fetch() -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError("there is no npm to fetch axe-core with")
    _FILE.parent.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=_FILE.parent) as name:
        folder = Path(name)
        command = [npm, "pack", "--silent", f"axe-core@{VERSION}"]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_BOUND_S, check=False
        )
        packages = list(folder.glob("*.tgz"))
        if done.returncode or not packages:
            raise RuntimeError(f"npm can't fetch axe-core {VERSION}: {done.stderr.strip()[-300:]}")
        if hashlib.sha512(packages[0].read_bytes()).hexdigest() != SHA512:
            raise RuntimeError(f"axe-core {VERSION} from npm is not the package that was chosen")
        with tarfile.open(packages[0]) as package:
            package.extract("package/axe.min.js", folder, filter="data")
        os.replace(folder / "package" / "axe.min.js", _FILE)  # other processes see all of it or nothing
