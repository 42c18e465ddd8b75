"""``FORMS``: all forms of the console, by the beginning of their URL."""

from typing import Final

from addon.console.changes import keys, wallet

FORMS: Final = {
    form.path: form for form in (keys.CREATE, keys.SET, keys.ROTATE, keys.REVOKE, wallet.CREDIT, wallet.DEBIT)
}
