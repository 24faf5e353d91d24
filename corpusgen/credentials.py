"""Credentials in addresses: found where they do not belong, and left out of what is shown."""

from __future__ import annotations

import re

# `user:password@` before a host or a bucket. A secret that was pasted as it is may hold slashes, so that a colon not
# followed by a port is enough to look for the @ beyond them.
_USER = re.compile(r"(?<=://)(?:[^/?#\s@]*|[^/\s:@]+:(?!\d+(?:[/?#\s]|$))[^\s@]*)@")
# What signed addresses of S3, Google and Azure, and those with a token in them, are known by.
_SIGNED = re.compile(
    r"(?<=[?&])(X-(?:Amz|Goog)-[\w-]+|AWSAccessKeyId|GoogleAccessId|Signature|sig|(?:\w+_)?token|api_?key|password)"
    r"=[^&\s'\"]*",
    re.IGNORECASE,
)


def holds_credentials(text: str) -> bool:
    """Whether an address has a user, a password, a signature or a token in it."""
    return "://" in text and bool(_USER.search(text) or _SIGNED.search(text))


def without_credentials(text: str) -> str:
    """The text with … in the place of every credential that an address in it has."""
    if "://" not in text:
        return text
    return _SIGNED.sub(r"\1=…", _USER.sub("…@", text))
