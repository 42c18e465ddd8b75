"""Forms that change something: the difference first, then one atomic edit, then one line in the audit log.

A form is data: ``Form`` in ``form.py``. It is one line in ``forms.py``, and its URL is ``/changes/ACTION/NAMES``.

| request | answer |
|---|---|
| GET | the form with the current values (``Form.current``) |
| POST with the fields | 303 to ``?change=TOKEN``; or the form again, with errors |
| GET with ``change`` | the difference and the new warnings of ``tollgate check`` |
| GET with ``fields`` | the form with the fields of a change |
| POST with ``token`` | the change is made: 303 to ``/changes/done/ID``, which shows a new key once |
| the same, where it can't be made now | 303 to ``?change=TOKEN``, which says why |

The token names a change that waits in memory, with the digest of the file that was shown. It is made once, however
often it comes. A secret that was typed is in no page after the first POST.

To add a form: write its ``Field``s (``make_fields`` makes them of the settings that commands have), a ``current``
function that returns the texts of the fields now, and a ``plan`` function. ``plan`` gets a ``RequestedChange`` and
returns a ``Change``: a ``FileChange`` of a ``Plan`` of ``addon.edits``. It runs twice: when the difference is shown,
and again under the lock when the change is made. Both raise ``EditError``, or ``SettingsError`` where a file does not
load.
"""
