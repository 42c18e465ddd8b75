"""The catalog of the checkout, read before processes are forked: each load of it in them finds it read."""

from addon.settings.catalog_builder import CatalogBuilder
from addon.settings.shared_settings import load_conf
from addon.settings.sources import Sources
from rig.configuration import ROOT


def read_shipped_catalog() -> None:
    """Read the catalog as it is shipped."""
    conf_file = ROOT / "proxy.conf"
    CatalogBuilder(load_conf(conf_file), {}, Sources()).build(conf_file)
