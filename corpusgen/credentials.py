"""Functions that find credentials in addresses and mask them before an address is shown."""

from __future__ import annotations

import re

# `user:password@` before a host or a bucket. A secret pasted without escaping may contain slashes, so after a colon
# with no port behind it, the @ is searched for beyond them.
_USER = re.compile(r"(?<=://)(?:[^/?#\s@]*|[^/\s:@]+:(?!\d+(?:[/?#\s]|$))[^\s@]*)@")
# The query parameters that mark signed addresses of S3, Google and Azure, and addresses with a token.
_SIGNED = re.compile(
    r"(?<=[?&])(X-(?:Amz|Goog)-[\w-]+|AWSAccessKeyId|GoogleAccessId|Signature|sig|(?:\w+_)?token|api_?key|password)"
    r"=[^&\s'\"]*",
    re.IGNORECASE,
)


def holds_credentials(text: str) -> bool:
    """Return whether an address contains a user, a password, a signature or a token."""
    return "://" in text and bool(_USER.search(text) or _SIGNED.search(text))


def without_credentials(text: str) -> str:
    """Return the text with every credential in its addresses replaced by …."""
    if "://" not in text:
        return text
    return _SIGNED.sub(r"\1=…", _USER.sub("…@", text))
