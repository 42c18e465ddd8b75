"""Modules whose code runs at their first use."""

import subprocess
import sys
import textwrap

from rig.configuration import ROOT
from rig.large import large_only


def run(code: str) -> str:
    """Run ``code`` in a new interpreter that has imported a gateway. Return what it prints."""
    script = [sys.executable, "-c", f"import sys, addon.serve.server\n{textwrap.dedent(code)}"]
    return subprocess.run(script, cwd=ROOT, check=True, capture_output=True, text=True).stdout


@large_only
def test_a_submodule_is_imported_without_the_code_of_its_package() -> None:
    assert run("""
        from mitmproxy.addons import termlog
        from mitmproxy.proxy import layers
        print(termlog.__name__, layers.modes.__name__, "mitmproxy.addons.proxyauth" in sys.modules)
        """).split() == ["mitmproxy.addons.termlog", "mitmproxy.proxy.layers.modes", "False"]


@large_only
def test_the_first_use_of_another_name_runs_the_code_of_the_package() -> None:
    assert run("""
        from mitmproxy.addons import default_addons
        from mitmproxy.proxy import layers
        print(len(default_addons()) > 20, layers.TCPLayer.__name__, "mitmproxy.addons.proxyauth" in sys.modules)
        """).split() == ["True", "TCPLayer", "True"]


def test_a_name_that_is_not_there_is_the_usual_error() -> None:
    assert run("""
        import ruamel.yaml
        for name in ("__no_name__", "no_name"):
            try:
                getattr(ruamel.yaml, name)
            except AttributeError as error:
                print(error)
        """).splitlines() == [
        "module 'ruamel.yaml' has no attribute '__no_name__'",
        "module 'ruamel.yaml' has no attribute 'no_name'",
    ]
