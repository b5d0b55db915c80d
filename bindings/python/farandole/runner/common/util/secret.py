"""Keys, and digests that only holders of a key can make."""

from __future__ import annotations

import hashlib
import hmac
import secrets

HOROVOD_SECRET_KEY = "_HOROVOD_SECRET_KEY"
"""The variable with the key of a service; never forwarded to other hosts."""
SECRET_LENGTH = 32
DIGEST_LENGTH = hashlib.sha256().digest_size


def make_secret_key() -> bytes:
    """A new random key."""
    return secrets.token_bytes(SECRET_LENGTH)


def compute_digest(key: bytes, message: bytes) -> bytes:
    """The digest of a message (HMAC-SHA256)."""
    return hmac.new(key, message, hashlib.sha256).digest()


def check_digest(key: bytes, message: bytes, digest: bytes) -> bool:
    """Whether a holder of the key has made this digest of the message."""
    return hmac.compare_digest(compute_digest(key, message), digest)
