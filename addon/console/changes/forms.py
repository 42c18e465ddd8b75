"""``FORMS``: all forms of the console, by the beginning of their URL."""

from typing import Final

from addon.console.changes import keys, own_keys, routing, wallet, workspaces

FORMS: Final = {
    form.path: form
    for form in (
        *(keys.CREATE, keys.SET, keys.ROTATE, keys.REVOKE, wallet.CREDIT, wallet.DEBIT),
        *(workspaces.CREATE, workspaces.SET, workspaces.TEXT),
        *routing.ROUTING_FORMS,
        *(own_keys.ADD, own_keys.SET, own_keys.REMOVE),
    )
}
