"""``load_view``: loads any view, by the name of its page. Only the process that makes pages imports this."""

from collections.abc import Callable, Mapping
from typing import Final

from addon.console.pages import Page
from addon.console.view import Reading, View
from addon.console.views.audit import load_audit, load_audit_line
from addon.console.views.call import load_call
from addon.console.views.calls import load_calls, load_new_calls
from addon.console.views.explain import load_explain
from addon.console.views.machines import load_machines
from addon.console.views.models import load_models
from addon.console.views.overview import load_overview
from addon.console.views.settings import load_gateway_settings
from addon.console.views.workspace import load_workspace
from addon.console.views.workspaces import load_workspaces

LOADERS: Final[Mapping[str, Callable[[Reading], View]]] = {
    "overview": load_overview,
    "calls": load_calls,
    "calls_new": load_new_calls,
    "call": load_call,
    "workspaces": load_workspaces,
    "workspace": load_workspace,
    "models": load_models,
    "explain": load_explain,
    "settings": load_gateway_settings,
    "machines": load_machines,
    "audit": load_audit,
    "audit_line": load_audit_line,
}
"""The function that loads each page of ``PAGES``, by its name."""


def load_view(page: Page, reading: Reading) -> View:
    """Return the content of a page."""
    return LOADERS[page.name](reading)
