"""Masks credentials in text that others wrote: everything that looks like one becomes ``MASK``. Pure.

This is the second line of defence. The first is that no code puts a key into a message.

| where | masked text |
|---|---|
| ``text.errors``, ``text.json_decode`` | messages of errors, also those of vendors |
| ``answers`` | the key of a call in its own answer |
| ``calls``, ``upstream.access_tokens`` | words of clients and providers in the ledger and the log |
| ``telemetry.logs``, ``telemetry.admin`` | log lines with their tracebacks, results of checks |
| ``gateway.flows`` | targets and headers of recorded calls |
| ``cli`` | errors of commands |

Every pattern starts at a literal or at the first letter of a word, and repeats possessively. So the time is
linear in the text, even if it is hostile.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

MASK = "***"
MAX_RECORDED_CHARS = 256
MIN_FRAGMENT_CHARS = 8
MIN_UNMISTAKABLE_CHARS = 16
_ESCAPED_ASCII = re.compile(rb"\\u00[2-7]|\\/")

_STARS = r"*•…"
# A dot is part of a credential only inside it, so the full stop of a sentence stays.
_REST = rf"(?:[\w\-{_STARS}]|\.++(?=[\w{_STARS}]))"
_ISSUED = r"sk[-_]|tg_|gsk_|xai-(?!org\b)|AIza|AQ\.(?=\w{8})|ya29\.(?=\w{8})"
# These openings also begin ordinary names (hf_hub_download, pplx-7b-chat), so only a long text after them is a key.
_LONG_ISSUED = (
    r"pplx-|hf_|r8_|nvapi-|csk-|fw_|pk[-_]|rk[-_]|gh[opsu]_|A[KS]IA|ABSK|bedrock-api-key-|gAAAAA|eyJ"
)
_KEY_NAME = r"\b(?:x-api-key|x-goog-api-key|api[-_ ]?(?:key|token)|access[-_ ]?token|secret|password)\b"
_SHOWS_A_DIGIT = rf"(?=[A-Za-z_\-]*+[\d{_STARS}])"

# The group "keep" stays before the mask. A pattern is tried only when the lower-case text has one of its openings:
# hardly any log line has one, and the search for a fixed string costs almost nothing.
_PATTERNS = tuple(
    (openings.split("|"), re.compile(pattern))
    for openings, pattern in (
        # a private key, up to its last line if that is there
        (
            "private key-----",
            r"(?P<keep>)-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----[\w+/=\s\\]*+(?:-----END [A-Z ]{0,20}PRIVATE KEY-----)?",
        ),
        # user:password@ in a URL
        ("://", r"(?P<keep>://)[^\s/@]{1,300}(?=@)"),
        # the value of an Authorization header, whatever it is; "authorization: must not" is a sentence
        (
            "authorization",
            r"(?i)(?P<keep>\bauthorization[\"']?(?: ?[:=] ?|, ?)(?:b?[\"'])?+"
            r"(?:(?:bearer|basic|token) |(?![a-z]++ [a-z])))"
            r"(?=\w)(?!(?:bearer|basic|token)\b)(?:[\w\-+/~]|\.++(?=\w))++=*",
        ),
        # Bearer and a token, but not "a Bearer token"
        (
            "bearer ",
            rf"(?i)(?P<keep>\bbearer )(?:(?=[A-Za-z_\-+/~.]*+[\d{_STARS}])|(?=[\w\-+/~.]{{16}}))"
            rf"(?:[\w\-+/~{_STARS}]|\.++(?=[\w{_STARS}]))++=*",
        ),
        # a key by its issuer's opening
        ("sk-|sk_|tg_|xai-|aiza|aq.|ya29.", rf"(?P<keep>)(?<![A-Za-z0-9])(?:{_ISSUED}){_REST}{{3,}}+"),
        (
            "pplx-|hf_|r8_|nvapi-|csk-|fw_|pk-|pk_|rk-|rk_|ghp_|gho_|ghs_|ghu_|akia|asia|absk|bedrock-api-key-|gaaaaa|eyj",
            rf"(?P<keep>)(?<![A-Za-z0-9])(?:{_LONG_ISSUED}){_REST}{{16,}}+",
        ),
        # "API key provided: DEADBEEF": only a key can follow
        ("key ", rf"(?i)(?P<keep>\bapi[-_ ]?key (?:provided|given): ?[\"'`]?)[\w{_STARS}]{_REST}*+"),
        # api_key=..., "api_key": "...", API key: ... when a text with a digit or a star follows
        (
            "key|token|secret|password",
            rf"(?i)(?P<keep>{_KEY_NAME}[\"']? ?[:=] ?[\"'`]?){_SHOWS_A_DIGIT}{_REST}++",
        ),
        ("key=", rf"(?i)(?P<keep>[?&](?:api_?)?key=){_REST}++"),
        # a fragment of a key as vendors echo it: pro****1234
        ("***|•••", rf"(?P<keep>)(?<![\w\-*])[\w\-]*+[*•]{{3,}}+[\w\-{_STARS}]*+"),
    )
)


def mask_credentials(text: str) -> str:
    """Return ``text`` with everything that looks like a credential, or a fragment of one, replaced by ``MASK``."""
    lower = text.lower()
    for openings, pattern in _PATTERNS:
        for opening in openings:
            if opening in lower:
                text = pattern.sub(rf"\g<keep>{MASK}", text)
                break
    return text


def mask_fragments(text: str, secret: str) -> str:
    """Return ``text`` without any piece of ``secret`` that is longer than the few characters that vendors show.

    Upper and lower case are the same. A piece of only letters is a word and stays.
    """
    text = text.replace(secret, MASK)
    lower, key = text.lower(), secret.lower()
    if len(key) < MIN_FRAGMENT_CHARS or len(lower) != len(text):
        return text
    covered = bytearray(len(text))
    for piece in {key[at : at + MIN_FRAGMENT_CHARS] for at in range(len(key) - MIN_FRAGMENT_CHARS + 1)}:
        at = -1 if piece.isalpha() else lower.find(piece)
        while at >= 0:
            covered[at : at + MIN_FRAGMENT_CHARS] = b"\1" * MIN_FRAGMENT_CHARS
            at = lower.find(piece, at + 1)
    if not any(covered):
        return text
    hidden = "".join("\0" if hit else char for char, hit in zip(text, covered, strict=True))
    return re.sub("\0+", MASK, hidden)


def mask_secret(text: bytes, secret: str) -> bytes:
    """Return JSON ``text`` without ``secret``, even if its characters are escaped or in JSON inside a string."""
    text = text.replace(secret.encode(), MASK.encode())
    if _ESCAPED_ASCII.search(text):
        text = _escaped_pattern(secret).sub(MASK.encode(), text)
    return text


@lru_cache(maxsize=256)
def _escaped_pattern(secret: str) -> re.Pattern[bytes]:
    """Return the expression that finds ``secret`` with any of its characters escaped."""
    chars = [
        rb"(?:%b|\\{1,8}+(?:u(?i:%04x)%b))"
        % (re.escape(char).encode(), ord(char), b"|/" if char == "/" else b"")
        for char in secret
    ]
    return re.compile(b"".join(chars))


def is_unmistakable(secret: str) -> bool:
    """Return whether ``secret`` is too distinctive to occur by chance.

    Servers that accept any key are called with a word, such as "ollama". An answer may rightly hold that word.
    """
    return len(secret) >= MIN_UNMISTAKABLE_CHARS and any(map(str.isdigit, secret))


def recordable(text: str | None, secrets: Sequence[str] = ()) -> str | None:
    """Return a client's or provider's own words as the ledger and the log may hold them: short, without secrets."""
    if text is None:
        return None
    if not secrets:
        return _mask_short(text[:MAX_RECORDED_CHARS])
    text = text[: 4 * MAX_RECORDED_CHARS]
    for secret in secrets:
        text = mask_fragments(text, secret)
    return _mask_short(text[:MAX_RECORDED_CHARS])


@lru_cache(maxsize=1024)
def _mask_short(text: str) -> str:
    """Mask a text that many calls share: the name of a model or of an end user, or the reason why an answer ended.

    Half a surrogate pair can't be stored, so it becomes a question mark.
    """
    return mask_credentials(text.encode("utf-8", "replace").decode())
