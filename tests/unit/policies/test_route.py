"""A target knows its secrets, and makes one copy of itself for each platform key."""

from dataclasses import replace

import pytest
from pydantic import SecretStr
from rig.metrics import EXCHANGE

TARGET = EXCHANGE.route.targets[0]


@pytest.mark.parametrize(
    ("auth", "secret", "secrets"),
    [
        ("bearer", "AKIA:half:of-it", ("AKIA:half:of-it",)),
        ("aws_sigv4", "AKIA:half", ("AKIA:half", "AKIA", "half")),
        ("aws_sigv4", "", ()),
        ("bearer", "", ()),
    ],
)
def test_the_parts_of_an_aws_key_are_secret_too(auth: str, secret: str, secrets: tuple[str, ...]) -> None:
    provider = replace(TARGET.model.provider, auth=auth)
    target = replace(TARGET, model=replace(TARGET.model, provider=provider), secret=SecretStr(secret))
    assert target.secrets == secrets


def test_a_target_has_one_copy_for_each_key() -> None:
    one, other = SecretStr("one"), SecretStr("other")
    copy = TARGET.with_platform_key(one, 1)
    assert (copy.secret, copy.platform_key) == (one, 1)
    assert TARGET.with_platform_key(one, 1) is copy
    assert copy.with_platform_key(one, 1) is copy
    assert TARGET.with_platform_key(other, 2) is not copy
    renewed = SecretStr("one")  # A reload reads the same text as a new object.
    assert TARGET.with_platform_key(renewed, 1).secret is renewed
