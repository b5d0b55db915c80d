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
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    return f"{name.split('.')[0]}-{digest}"
