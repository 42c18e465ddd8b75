"""Service accounts in the form of Google's console, with a new key for each run."""

import json
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

EMAIL = "gateway@project.iam.gserviceaccount.com"


@cache
def rsa_key(owner: str = "platform") -> rsa.RSAPrivateKey:
    """Return the key of ``owner``. No workspace may use a key of the platform."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, password: bytes | None = None) -> str:
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    ).decode()


def key_file(token_uri: str, **changes: Any) -> str:
    """Return the JSON of an account whose tokens come from ``token_uri``; ``changes`` replace its fields."""
    made = {
        "type": "service_account",
        "project_id": "project",
        "private_key_id": "key-1",
        "private_key": pem(rsa_key()),
        "client_email": EMAIL,
        "token_uri": token_uri,
    }
    return json.dumps(made | changes, indent=2)
