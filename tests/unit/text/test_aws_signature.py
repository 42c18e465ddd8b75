"""AWS credentials are read, and requests signed, as Amazon's own tools do it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from addon.text.aws_signature import (
    AwsCredentials,
    RequestSigner,
    canonical_request,
    find_region,
    parse_aws_credentials,
)

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
KEYS = AwsCredentials("AKIDEXAMPLE", SECRET)
AT = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
HOST = ("host", "example.amazonaws.com")
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
TOKEN = (
    "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwt"
    "hAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXA"
    "kiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
)

# AWS's own test suite of Signature Version 4. Source: boto/botocore, tests/unit/auth/aws4_testsuite (Apache-2.0).
# name: method, target, headers, content, names of signed headers, signature
PUBLISHED: dict[str, tuple[str, str, list[tuple[str, str]], bytes, str, str]] = {
    "post-vanilla": (
        *("POST", "/", [HOST], b"", "host;x-amz-date"),
        "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    ),
    "post-x-www-form-urlencoded": (
        *("POST", "/", [("content-type", "application/x-www-form-urlencoded"), HOST], b"Param1=value1"),
        "content-type;host;x-amz-date",
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    ),
    "post-sts-header-before": (
        *("POST", "/", [HOST, ("x-amz-security-token", TOKEN)], b"", "host;x-amz-date;x-amz-security-token"),
        "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
    ),
    "get-vanilla-query-order-key-case": (
        *("GET", "/?Param2=value2&Param1=value1", [HOST], b"", "host;x-amz-date"),
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    "get-utf8": (
        *("GET", "/\u1234", [HOST], b"", "host;x-amz-date"),
        "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
    ),
}

NOVA = "/model/amazon.nova-lite-v1%3A0/converse"
PROFILE = (
    "/model/arn%3Aaws%3Abedrock%3Aeu-central-1%3A012345678901%3Ainference-profile%2Feu.anthropic.claude-sonnet-4-6"
    "/converse-stream"
)
JSON = ("content-type", "application/json")
# Made with botocore 1.44.5, for the time 2026-11-22 12:34:56 UTC.
# region: host, target, headers, content, session token, signature
OF_BOTOCORE: dict[str, tuple[str, str, list[tuple[str, str]], bytes, str | None, str]] = {
    "us-east-1": (
        *("bedrock-runtime.us-east-1.amazonaws.com", NOVA, [JSON], b'{"messages":[]}', None),
        "8878b3390bac16eedb62f1a6686b5bb546a074122638c23957c675162f8fb39b",
    ),
    "eu-central-1": (
        *("bedrock-runtime.eu-central-1.amazonaws.com", PROFILE, [JSON]),
        '{"messages":[{"role":"user","content":[{"text":"grüße"}]}]}'.encode(),
        "FQoGZXIvYXdzEXAMPLE+/token==",
        "413a1a03c23ff66336173b72b62324731f0982afefcfa8ead1c4d6a02942d584",
    ),
    "us-west-2": (
        "bedrock-runtime.us-west-2.amazonaws.com:8443",
        *("/openai/v1/chat/completions?b=2&a=1%20x", [JSON], b"", None),
        "699d690862e385781bab030f7f338592fca7f5af9e0c6ee16d98d25455277aac",
    ),
}


@pytest.mark.parametrize(
    ("method", "target", "headers", "content", "names", "signature"), PUBLISHED.values(), ids=PUBLISHED
)
def test_a_request_of_the_published_suite(
    method: str, target: str, headers: Any, content: bytes, names: str, signature: str
) -> None:
    signer = RequestSigner(KEYS, "us-east-1", "service")
    date, authorization = signer.sign(method, target, headers, content, AT)
    assert date == ("x-amz-date", "20150830T123600Z")
    scope = "20150830/us-east-1/service/aws4_request"
    assert authorization == (
        "authorization",
        f"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/{scope}, SignedHeaders={names}, Signature={signature}",
    )


def test_the_canonical_request_of_the_published_suite() -> None:
    headers = [("x-amz-date", "20150830T123600Z"), HOST]
    assert canonical_request("POST", "/", headers, b"") == (
        "host;x-amz-date",
        f"POST\n/\n\nhost:example.amazonaws.com\nx-amz-date:20150830T123600Z\n\nhost;x-amz-date\n{EMPTY}",
    )


@pytest.mark.parametrize("region", OF_BOTOCORE)
def test_a_request_to_bedrock_has_the_signature_that_botocore_makes(region: str) -> None:
    host, target, headers, content, token, signature = OF_BOTOCORE[region]
    signer = RequestSigner(AwsCredentials("AKIDEXAMPLE", SECRET, token), region, "bedrock")
    sent = [("host", host), *headers, ("accept", "application/json"), ("user-agent", "tollgate")]
    sent += [("x-amz-security-token", token)] if token else []
    at = datetime(2026, 11, 22, 12, 34, 56, tzinfo=UTC)
    _, (_, authorization) = signer.sign("POST", target, sent, content, at)
    assert authorization.endswith(f"Signature={signature}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"AKIDEXAMPLE:{SECRET}", KEYS),
        (f"ASIAEXAMPLE:{SECRET}:to/ken==", AwsCredentials("ASIAEXAMPLE", SECRET, "to/ken==")),
        (f'{{"AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "{SECRET}"}}', KEYS),
        (
            f'{{"Version": 1, "AccessKeyId": "ASIAEXAMPLE", "SecretAccessKey": "{SECRET}",\n'
            '"SessionToken": "to/ken==", "Expiration": "2026-11-22T13:00:00Z"}',
            AwsCredentials("ASIAEXAMPLE", SECRET, "to/ken=="),
        ),
    ],
    ids=["a word", "a word with a token", "JSON", "JSON with a token"],
)
def test_credentials_are_read(text: str, expected: AwsCredentials) -> None:
    assert parse_aws_credentials(text) == expected
    assert parse_aws_credentials(expected.text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("AKIDEXAMPLE", "are not ACCESS_KEY_ID:SECRET"),
        ("a1:b2:c3:d4", "are not ACCESS_KEY_ID:SECRET"),
        ("AKIDEXAMPLE:", "a part"),
        (":wJalrXUtnFEMI", "a part"),
        ("AKIDEXAMPLE:wJal rXUtnFEMI", "a part"),
        ("{", "not a JSON object"),
        ('{"AccessKeyId": "AKIDEXAMPLE"}', "no SecretAccessKey"),
        ('{"AccessKeyId": 1, "SecretAccessKey": "wJalrXUtnFEMI"}', "no AccessKeyId"),
        ('{"AccessKeyId": "AK:ID", "SecretAccessKey": "wJalrXUtnFEMI"}', "a part"),
    ],
)
def test_wrong_credentials_are_refused_and_not_shown(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        parse_aws_credentials(text)
    assert not [part for part in ("AKIDEXAMPLE", "wJal") if part in str(caught.value)]


def test_credentials_are_not_shown() -> None:
    shown = repr(RequestSigner(AwsCredentials("AKIDEXAMPLE", SECRET, "token"), "us-east-1", "bedrock"))
    assert shown == "RequestSigner(..., 'us-east-1', 'bedrock')"
    assert repr(KEYS) == "AwsCredentials(...)"


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("bedrock-runtime.us-east-1.amazonaws.com", "us-east-1"),
        ("bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("bedrock-runtime.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("bedrock-mantle.ap-southeast-2.api.aws", "ap-southeast-2"),
        ("vpce-0a1b-2c3d.bedrock-runtime.eu-central-1.vpce.amazonaws.com", "eu-central-1"),
        ("127.0.0.1", None),
        ("bedrock.example", None),
    ],
)
def test_the_region_is_in_the_name_of_the_host(host: str, region: str | None) -> None:
    assert find_region(host) == region
