"""An event as its receiver gets it: JSON, signed. Source: docs/alerts.md."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from addon.store.ledger.alerts import NewAlert
from addon.text.masking import mask_credentials
from policies.alert_rules import AlertType
from policies.utc_time import format_utc

SIGNATURE_HEADER: Final = "X-Tollgate-Signature"


@dataclass(frozen=True, slots=True)
class Event:
    """What happened, in words and in ``fields``. Text that looks like a credential is masked when it is packed."""

    id: str
    type: AlertType
    time: datetime
    text: str
    fields: Mapping[str, Any]

    def pack(self, gateway: str) -> NewAlert:
        """Return the event for the queue. ``gateway`` names the machine."""
        told = {
            "id": self.id,
            "type": self.type,
            "time": format_utc(self.time),
            "gateway": gateway,
            "text": self.text,
        }
        body = {
            name: mask_credentials(value) if isinstance(value, str) else value
            for name, value in (told | dict(self.fields)).items()
        }
        workspace = self.fields.get("workspace")
        return NewAlert(self.id, body["time"], self.type, workspace, body["text"], json.dumps(body))


def event_id(*parts: object) -> str:
    """Return the id of an event that these parts name: the same one whoever finds it."""
    return "evt_" + hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:32]


def sent_body(packed: str, sent_at: datetime, attempt: int) -> bytes:
    """Return the body of one attempt. It has the time of the attempt, so that a signature can't be used again later."""
    return json.dumps(json.loads(packed) | {"sent_at": format_utc(sent_at), "attempt": attempt}).encode()


def sign(body: bytes, secret: str) -> str:
    """Return the value of ``SIGNATURE_HEADER``."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
