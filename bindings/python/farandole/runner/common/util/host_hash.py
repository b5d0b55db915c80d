"""A name for a host that differs between containers of one machine."""

from __future__ import annotations

import hashlib
import os
import socket
from typing import Any


def host_hash(salt: Any = None) -> str:
    """The host's name with a digest of its full name, the container (``CONTAINER_ID``), and the salt."""
    name = socket.gethostname()
    parts = [name, os.environ.get("CONTAINER_ID", ""), "" if salt is None else str(salt)]
    return f"{name.split('.')[0]}-{_hash(chr(0).join(parts))}"


def _hash(text: str) -> str:
    """The digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
