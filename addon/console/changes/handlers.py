"""The handlers of forms: their pages, and the page of a result. Sources: ``changes/__init__.py``, docs/console.md."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, override

from tornado.escape import url_unescape

from addon.console.access.guard import find_client
from addon.console.changes.field import FieldErrors, TypedSecretError, mask_refused
from addon.console.changes.form import Form
from addon.console.changes.forms import FORMS
from addon.console.changes.maker import BusyError, RefusedError, UnavailableError
from addon.console.changes.making import Requester
from addon.console.changes.waiting import PendingChange, Result
from addon.console.page import ConsoleHandler
from addon.runtime.listening import base_url
from addon.settings.settings import Settings
from addon.text.masking import mask_credentials

READ_LOOKS: Final = 25
"""How often the page of a result looks whether the gateway has read the file, ``READ_LOOK_S`` apart."""

READ_LOOK_S: Final = 0.1

NOT_WAITING: Final = (
    "This change was shown too long ago, in another session, or before the gateway was restarted."
    " The audit log says whether it was made."
)


class FormHandler(ConsoleHandler):
    """A form of ``FORMS``, with the page of its difference and its confirmation."""

    @override
    async def prepare(self) -> None:
        """Refuse an unknown path, and every request while nothing may be changed."""
        await super().prepare()
        if self._finished:
            return None
        found = find_form(self.request.path)
        if found is None:
            return self.fail(404, "There is no such form.")
        self.form, self.names = found
        if why := self.maker.find_edit_obstacle():
            return self.fail(403, why)
        return None

    async def get(self) -> None:
        """Show the form with the current values. Or show the ``change`` that waits, or its ``fields``."""
        if token := self.get_query_argument("change", "") or self.get_query_argument("fields", ""):
            if waiting := self._find_waiting(token):
                return self._show_waiting(token, waiting)
            return self.fail(409, NOT_WAITING)
        try:
            obstacle = await self.maker.find_obstacle(self.form)
            current = await self.maker.read_current(self.form, self.names)
        except RefusedError as error:
            return self._show_refusal(error)
        except BusyError as error:
            return self.fail(503, str(error))
        return self._show_form(current, fault=obstacle or "")

    async def post(self) -> None:
        """Lead to the difference, or make the change of ``token`` and lead to its result.

        Each is a page that can be loaded again. A form with an error is answered at once, and its texts are not kept.
        """
        typed = {field.name: self._read(field.name) for field in self.form.fields}
        token = self.get_body_argument("token", "")
        if self.get_body_argument("again", ""):
            return self._redirect_to("fields", token) if self._find_waiting(token) else self._show_form(typed)
        if token:
            return await self._confirm(token)
        try:
            token = await self.maker.show(self.form, self.names, typed, self.visitor.shown_session)
        except FieldErrors as errors:
            if isinstance(errors, TypedSecretError):
                typed = {**errors.masked}
            return self._show_form(mask_refused(self.form.fields, typed), errors.errors, status=400)
        except RefusedError as error:
            status = 503 if isinstance(error, UnavailableError) else 400
            return self._show_form(mask_refused(self.form.fields, typed), fault=str(error), status=status)
        except BusyError as error:
            return self._show_form(mask_refused(self.form.fields, typed), fault=str(error), status=503)
        return self._redirect_to("change", token)

    def _find_waiting(self, token: str) -> PendingChange | None:
        """Return the change that waits under a token, if it is one of this session and of this form."""
        waiting = self.maker.waiting.get(token, self.visitor.shown_session)
        if waiting is None or (waiting.asked.form, waiting.asked.names) != (self.form, self.names):
            return None
        return waiting

    def _redirect_to(self, part: str, token: str) -> None:
        """Redirect to the page with the difference of a change, or to the one with its fields."""
        self.redirect(f"{self.form.url(*self.names.values())}?{part}={token}", status=303)

    async def _confirm(self, token: str) -> None:
        waiting = self._find_waiting(token)
        if waiting is None:
            return self.fail(409, NOT_WAITING)
        try:
            result = await self.maker.confirm(waiting, self._requester())
        except FieldErrors as errors:
            return self._show_form(waiting.asked.typed, errors.errors, status=409)
        except (BusyError, UnavailableError):
            return self._redirect_to("change", token)
        except RefusedError as error:
            return self._show_form(waiting.asked.typed, fault=str(error), status=409)
        return self.redirect(f"/changes/done/{result}", status=303)

    def _read(self, name: str) -> str:
        # Browsers send the line ends of a textarea as CR LF.
        return self.get_body_argument(name, "", strip=False).replace("\r\n", "\n")

    def _requester(self) -> Requester:
        return Requester(find_client(self.request), self.visitor.shown_session)

    def _show_form(
        self,
        typed: Mapping[str, str],
        errors: Mapping[str, str] | None = None,
        fault: str = "",
        status: int = 200,
    ) -> None:
        shown = {
            field.name: "" if field.kind == "password" else typed.get(field.name, "")
            for field in self.form.fields
        }
        self.set_status(status)
        suggested = self.maker.suggest(self.form)
        # A key that was typed into the wrong field is quoted by the error.
        errors = {name: mask_credentials(error) for name, error in (errors or {}).items()}
        fault = mask_credentials(fault)
        self._render("change_form", typed=shown, errors=errors, fault=fault, suggested=suggested)

    def _show_refusal(self, error: RefusedError) -> None:
        """Say why there is no form. Where a file is broken, lead to the forms that mend it."""
        self.set_status(404)
        self._render("change_refused", message=mask_credentials(str(error)), error=error)

    def _show_waiting(self, token: str, waiting: PendingChange) -> None:
        if not self.get_query_argument("change", ""):
            return self._show_form(waiting.asked.typed)
        session, name = self.visitor.shown_session, waiting.result
        result = f"/changes/done/{name}" if name and self.maker.results.get(name, session) else ""
        return self._render(
            "change_preview", token=token, waiting=waiting, is_made=name is not None, result=result
        )

    def _render(self, template: str, **values: Any) -> None:
        self.show(template, self.form.title, "workspaces", form=self.form, names=self.names, **values)


class DoneHandler(ConsoleHandler):
    """The page of a result. It shows a new key once."""

    async def get(self, name: str) -> None:
        """Show the result. Pages show a change as soon as its file is read: wait for it, so that links lead to it."""
        result = self.maker.results.get(name, self.visitor.shown_session)
        if result is None:
            return self.fail(404, "There is no such result any more. The audit log has all changes.")
        is_in_force = await self._wait_until_in_force(result)
        new_key = result.take_key()
        shown = {
            "result": result,
            "new_key": new_key,
            "makes_key": result.makes_key,
            "is_in_force": is_in_force,
            "command": new_key and make_command(self.sources.settings(), result.workspace, new_key),
        }
        self.show("change_done", result.title, "workspaces", **shown)
        return None

    async def _wait_until_in_force(self, result: Result) -> bool | None:
        """Wait for the gateway to use a change, and return whether it does. None where that is not known."""
        # Once only: a later change of the workspace hides this one for ever.
        is_in_force, result.is_in_force = result.is_in_force, None
        if is_in_force is None:
            return None
        for _ in range(READ_LOOKS):
            if is_in_force(self.sources.settings()):
                return True
            await asyncio.sleep(READ_LOOK_S)
        return False


def make_command(settings: Settings, workspace_id: str, key: str) -> str:
    """Return a command that tries a new key. It names a model where the workspace has no default."""
    listen, workspace = settings.conf.listen, settings.workspaces.get(workspace_id)
    url = base_url(listen.host, listen.port, tls=bool(listen.tls_certificate))
    model = "" if workspace and workspace.default_model else '"model": "MODEL", '
    body = f'{{{model}"messages": [{{"role": "user", "content": "Hello"}}]}}'
    return (
        f"curl {url}/v1/chat/completions \\\n"
        f"  -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' \\\n"
        f"  -d '{body}'"
    )


def find_form(path: str) -> tuple[Form, Mapping[str, str]] | None:
    """Return the form of a path, with the variable parts of the path by name."""
    for form in FORMS.values():
        if path == form.path or path.startswith(f"{form.path}/"):
            parts = path.removeprefix(form.path).split("/")[1:]
            if len(parts) != len(form.names) or not all(parts):
                return None
            return form, dict(
                zip(form.names, (url_unescape(part, plus=False) for part in parts), strict=True)
            )
    return None
