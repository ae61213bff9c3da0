"""Removes credentials, and folders of users, from texts that are shown or stored."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Final

HIDDEN: Final = "***"
"""Replaces a credential."""
_NOUN: Final = (
    r"(?:pass(?:word|wd|phrase)|(?<![a-z])pass(?=[ =])|(?<=[;_-])pwd|(?:access|session|auth|id|refresh)[-_]token|secret"
    r"|credentials?"
    r"|(?:api|access|secret|private|account|auth|signing|license)[-_ ]?key(?:[-_]id)?)"
)
# Of a tokeniser, or of a sentence on it: eos_token, pad_token, "unexpected token".
_OTHER_NOUN: Final = (
    r"(?<!eos[-_])(?<!bos[-_])(?<!pad[-_])(?<!unk[-_])(?<!sep[-_])(?<!cls[-_])(?<!end[-_])(?<!mask[-_])(?<!stop[-_])"
    r"(?<!start[-_])(?<!special[-_])token"
)
_VALUE: Final = (
    r"(?!\{\w+\}|\*\*\*|(?:none|null|true|false)\b)"
    r"(?:\\?(?P<quote>[\"'])(?P<in>(?:(?!\\?(?P=quote)).)+)|[^\s,;&'\"\\]+(?:,(?![\w.-]+[=:])[^\s,;&'\"\\]+)*)"
)
_SCHEME: Final = r"(?:(?:bearer|basic|token|digest|apikey|api-key|negotiate|key)\s+)?"
_NAMED: Final = re.compile(
    rf"(?P<name>{_NOUN}(?:\\?[\"'])?\s*[:=]\s*{_SCHEME}"
    rf"|{_OTHER_NOUN}(?!\s*[:=]\s*\d{{1,7}}\b)(?:\\?[\"']\s*:\s*|\s*=\s*(?![<\[(])|:(?! )|: (?=\S*\d|\S{{20}}))"
    rf"|(?:authorization|cookie)(?:\\?[\"'])?\s*[:=]\s*(?:{_SCHEME[:-1]}|(?=\S*\d|\S{{16}}))"
    r"|\bbearer\s+(?=\S*\d|\S{16})"
    rf"|(?<![\w-])--?[\w.-]*(?:{_NOUN}|{_OTHER_NOUN})[\"']?,?\s+(?!-)"
    r"|(?<![\w-])(?:-u|--user)[= ](?=[^\s:]+:)"
    r"|\bsignature=(?=[\da-f]{16})"
    r"|[?&](?:sig|signature|key|auth|code|x-(?:amz|goog|ms)-[\w-]+)=)"
    rf"{_VALUE}",
    re.IGNORECASE | re.DOTALL,
)
_USER: Final = re.compile(
    r"(?<=://)(?:[^/\s'\"@:]*:(?!\d+(?:[/?#\s]|$))[^\s'\"]{1,512}|[^/\s'\"]{1,512})@"
    r"|(?<![\w:/.-])[\w.+-]+:[^\s:@/'\"]+@(?=[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}\b|localhost)"
)
_SHAPE: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:sk-(?!learn|image)(?:(?=[\w-]*[\dA-Z])[\w-]{6,}|[\w-]{20,})|gh[pousr]_\w{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}"
    r"|(?:gsk|npm|r8|[sr]k_live|dckr_pat|lsv2_pt|tskey|pypi)[_-](?=\w*[\dA-Z])[\w-]{12,}|SG\.[\w-]{8,}\.[\w-]{8,}"
    r"|hf_(?:(?=[^\W_]*[\dA-Z])[^\W_]{8,}|[a-z]{16,})\b|(?:AKIA|ASIA)[A-Z\d]{8,}|AIza[\w-]{20,}|xox[a-z]-[\w-]{6,}"
    r"|eyJ[\w-]{5,}\.[\w-]+(?:\.[\w-]*)?)",
    re.DOTALL,
)
_VARIABLE: Final = re.compile(
    r"(?:^|_)(?:KEY|TOKEN|PASS|PAT|CREDENTIALS?)(?:_|$)|(?<!^OL).PWD$|PASSW|PASSPHRASE|SECRET|APIKEY", re.I
)
_names_credential = lru_cache(maxsize=10_000)(_VARIABLE.search)
_LONG: Final = re.compile(r"(?!\d{1,7}$).{6}", re.DOTALL)
"""Values that are replaced: shorter ones are parts of other words, short numbers are numbers."""
_UNSTORABLE: Final = re.compile(r"[\x00\ud800-\udfff]")
"""Characters that PostgreSQL does not take, or that UTF-8 has no bytes for: a run with one could never be uploaded."""
_HOME: Final = re.compile(r"(?<![\w.])(?:/(?:home|Users)/|[A-Za-z]:\\+Users\\+)[^/\\\s'\":,;]+")


def public_text(text: str, before: str = "") -> str:
    """Return a text, with what stands before it, as others may see it: without credentials and folders of users.

    Characters that a tracking server cannot store become U+FFFD.

    Credentials are values with the name of one (``password=...``, ``--token ...``, ``Authorization: ...``), users of
    addresses, keys of well-known shapes, and values of environment variables with the name of a credential.

    Examples
    --------
    >>> public_text("python train.py --api-key 123 --store redis://alice:hunter2@dbhost --max-tokens 10")
    'python train.py --api-key *** --store redis://***@dbhost --max-tokens 10'
    """
    variables = os.environ if len(text) > 5 else ()  # else none is long enough
    values = {value for name in variables if _names_credential(name) and _LONG.match(value := os.environ[name])}
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    text = _SHAPE.sub(HIDDEN, _USER.sub(f"{HIDDEN}@", f"{before}{text}"))
    text = _NAMED.sub(lambda match: f"{match['name']}{match['quote'] or ''}{HIDDEN}", text)
    return _UNSTORABLE.sub("\ufffd", _HOME.sub("~", text))


def public_value(name: str, value: str) -> str:
    """Return the value of a parameter as :func:`public_text` shows it behind its name."""
    return public_text(value, f"{name}=").partition("=")[2]
