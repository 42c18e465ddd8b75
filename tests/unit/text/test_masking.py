"""Everything that looks like a credential is masked, and ordinary text stays."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig.large import sampled

from addon.text.masking import mask_credentials

BASE62 = "0Aa1Bb2Cc3Dd4Ee5Ff6Gg7Hh8Ii9Jj0Kk1Ll2Mm3Nn"[:40]


MASKED: list[tuple[str, str]] = [
    # the openings of issued keys
    ("sk-fake0000", "***"),
    ("sk-proj-FAKE_0000-0000", "***"),
    ("sk-ant-api03-FAKE0000", "***"),
    ("sk_live_FAKE0000", "***"),
    (f"tg_{BASE62}", "***"),
    ("gsk_FAKE0000", "***"),
    ("xai-FAKE0000", "***"),
    ("AIzaSyFAKE_0000-0000", "***"),
    ("AQ.Ab8FAKE0000_0000", "***"),
    ("pplx-" + "FAKE0000" * 5, "***"),
    ("hf_" + "FAKEfake" * 4, "***"),
    ("nvapi-" + "FAKE0000" * 5, "***"),
    ("AKIA" + "FAKE0000" * 2, "***"),
    ("ASIA" + "FAKE0000" * 2, "***"),
    ("ABSK" + "FAKE0000" * 5, "***"),
    ("bedrock-api-key-" + "FAKE0000" * 5, "***"),
    ("eyJGQUtF.eyJGQUtFGQUtF.FAKE-sig_0000", "***"),
    ("a key sk-fake0000, and more", "a key ***, and more"),
    ("(sk-fake0000)", "(***)"),
    ('"sk-fake0000"', '"***"'),
    ("keysk-fake0000=sk-fake0001", "keysk-fake0000=***"),
    # fragments that vendors repeat
    ("Incorrect API key provided: sk-12345.", "Incorrect API key provided: ***."),
    ("Incorrect API key provided: sk-proj-abc***xyz. You", "Incorrect API key provided: ***. You"),
    ("Incorrect API key provided: sk-abc...wxyz.", "Incorrect API key provided: ***."),
    ("Incorrect API key provided: sk-abc…wxyz.", "Incorrect API key provided: ***."),
    ("Incorrect API key provided: in***ey. You", "Incorrect API key provided: ***. You"),
    ("Incorrect API key provided: dummy-op********-key. See", "Incorrect API key provided: ***. See"),
    ("Incorrect API key provided: DEADBEEF. See", "Incorrect API key provided: ***. See"),
    ("Incorrect API key provided: sk - pro****1234. See", "Incorrect API key provided: *** - ***. See"),
    ("the key ••••••1234 has expired", "the key *** has expired"),
    ("the key ****1234 has expired", "the key *** has expired"),
    ("Invalid API key: key1234", "Invalid API key: ***"),
    ("Invalid API key: AIzv00FAKE-5OglFAKE", "Invalid API key: ***"),
    ("the token ya29.c0FAKEfake-0_x is unknown", "the token *** is unknown"),
    # headers, in the forms that programs show
    ("Bearer FAKE0000", "Bearer ***"),
    ("bearer fakefakefakefakefake", "bearer ***"),
    ("Bearer FAKE/00+0~.x==", "Bearer ***"),
    ("Authorization: Bearer hunter", "Authorization: Bearer ***"),
    ("authorization: Basic ZmFrZTpmYWtl=", "authorization: Basic ***"),
    ("Authorization: hunter", "Authorization: ***"),
    ("Authorization: hunter2 is wrong", "Authorization: *** is wrong"),
    ("Authorization: token hunter is wrong", "Authorization: token *** is wrong"),
    ("{'Authorization': 'Bearer hunter'}", "{'Authorization': 'Bearer ***'}"),
    ("(b'authorization', b'Bearer hunter')", "(b'authorization', b'Bearer ***')"),
    ("x-api-key: fake-0000", "x-api-key: ***"),
    ("x-goog-api-key: fake-0000", "x-goog-api-key: ***"),
    # named values
    ("api_key='fake-0000'", "api_key='***'"),
    ('{"api_key": "fake0000"}', '{"api_key": "***"}'),
    ("password=hunter2", "password=***"),
    ("secret: hunter2", "secret: ***"),
    ("access_token=fake0000", "access_token=***"),
    # URLs
    ("https://host/v1beta/models?key=fake&alt=sse", "https://host/v1beta/models?key=***&alt=sse"),
    ("https://host/?a=b&api_key=fake", "https://host/?a=b&api_key=***"),
    ("redis://:hunter@cache:6379/0", "redis://***@cache:6379/0"),
    ("https://user:hunter@host/", "https://***@host/"),
    # a private key
    ("-----BEGIN PRIVATE KEY-----\nRkFL\nRQ==\n-----END PRIVATE KEY-----\n", "***\n"),
    ("-----BEGIN RSA PRIVATE KEY-----\\nRkFLRQ==", "***"),
]


LEFT_ALONE = [
    "",
    "The model `gpt-4o-mini` does not exist or you do not have access to it.",
    "Rate limit reached for gpt-4o in organization org-fake on tokens per min: Limit 30000, Used 29000.",
    "The Authorization header must be of the form Bearer.",
    "Authorization: Bearer <API_KEY>",
    "Send a Bearer token with each request.",
    "Incorrect API key provided: <YOUR_KEY>.",
    "You can find your API key at https://platform.openai.com/account/api-keys.",
    "headers.authorization: must not be set here: a secret belongs in platform_key",
    "Missing API key: set it in the Authorization header.",
    "max_tokens: must be at most 4096",
    "prompt_tokens=12 completion_tokens=30",
    "**Note** a * b ** c *** d",
    "risk-free task-force at the desk-42",
    "deepseek-chat, xai-org/grok-1, pplx-7b-online, hf_hub_download",
    "api_key=settings.key",
    "GET https://example.com:8080/v1/models?limit=3 (see mail@example.com)",
    "req_0123456789abcdef01234567",
    "chatcmpl-0123456789abcdef",
    "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "-----BEGIN CERTIFICATE-----",
]


@pytest.mark.parametrize(("text", "masked"), MASKED)
def test_text_like_a_credential_is_masked(text: str, masked: str) -> None:
    assert mask_credentials(text) == masked


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_ordinary_text_is_not_masked(text: str) -> None:
    assert mask_credentials(text) == text


# The last one has no end, so all that follows is masked too.
@pytest.mark.parametrize(("text", "masked"), MASKED[:-1])
def test_a_credential_is_masked_between_other_lines(text: str, masked: str) -> None:
    assert mask_credentials(f"before\n{text}\nafter") == f"before\n{masked}\nafter"


@pytest.mark.parametrize("prefix", ["tg_", "sk-", "sk-proj-", "gsk_", "xai-", "AIza", "Bearer "])
@given(
    body=st.text(alphabet=string.ascii_letters + string.digits + "_-", min_size=32, max_size=48),
    around=st.tuples(st.text(max_size=10), st.text(max_size=10)),
)
@settings(max_examples=40)
def test_a_key_is_masked_in_any_text(prefix: str, body: str, around: tuple[str, str]) -> None:
    before, after = around
    assert body not in mask_credentials(f"{before} {prefix}{body} {after}")


@sampled(every=3)
@pytest.mark.parametrize(
    "repeated",
    ["a", "*", "a*", "-*", "…", ".", "sk-", "sk-.", "bearer ", "bearer a.", "authorization: bearer ", "api key: ",
     "key=a.", "?key=", "://", "://a:", "secret='", "eyJ", "-----BEGIN PRIVATE KEY-----", "tg_a-*"],
)  # fmt: skip
def test_masking_of_hostile_text_takes_linear_time(repeated: str) -> None:
    # A pattern that is not linear would take hours here, not seconds.
    text = repeated * (1_000_000 // len(repeated))
    assert len(mask_credentials(text + " sk-fake0000 key*** bearer 1 authorization: a ://")) > 0
