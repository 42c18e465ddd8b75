"""``tollgate catalog price`` in a deployment folder whose overlay has a model of its own."""

from pathlib import Path

from click.testing import CliRunner, Result

from addon.commands.catalog import catalog
from addon.commands.init import init
from rig.settings_files import edit

OWN = """
# The model of a customer.
["own"]  # agreed on 2026-11-01
provider = "GROQ"
upstream_model_id = "own-1"
family = "groq"
input_price_per_m = '1'          # per million
output_price_per_m = "2"
max_completion_tokens = 100

[["own".tiers]]                  # long prompts
above_prompt_tokens = 1000
input_price_per_m = "3"
"""


def make_deployment(folder: Path) -> Path:
    """Return the conf of a deployment folder whose overlay has a model of its own, with a markup of 4 percent."""
    assert CliRunner().invoke(init, [str(folder)]).exit_code == 0
    file = folder / "proxy.conf"
    edit(file, 'database = "var/tollgate.db"', 'database = "var/ledger.db"')
    overlay_of(file).write_text(OWN, encoding="utf-8")
    return file


def overlay_of(conf: Path) -> Path:
    """Return the overlay's models.toml."""
    return conf.parent / "catalog" / "models.toml"


def run_price(conf: Path, *arguments: str | Path) -> Result:
    """Run the command with these arguments."""
    return CliRunner().invoke(catalog, ["price", *map(str, arguments), "--conf", str(conf)])
