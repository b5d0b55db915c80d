"""The secret of jobs whose processes other programs start, in a file that these processes read."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Mapping, MutableMapping, Optional

FILE_VARIABLE = "FARANDOLE_SECRET_FILE"
TEXT_VARIABLE = "FARANDOLE_SECRET"


class SecretFile:
    """The file that an environment names. Where it names none, a new secret in a file of its own, which is named in the
    environment until ``close()``."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        self._environment = environment
        self._folder = ""
        self._is_named = False
        self.path = environment.get(FILE_VARIABLE, "")
        if not self.path:
            self._write(environment.get(TEXT_VARIABLE) or secrets.token_hex(32))

    def _write(self, text: str) -> None:
        self._folder = tempfile.mkdtemp(prefix="farandole-secret-")  # only this user can enter it
        self.path = os.path.join(self._folder, "secret")
        with open(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        if not self._environment.get(TEXT_VARIABLE):
            self._environment[FILE_VARIABLE] = self.path
            self._is_named = True

    def close(self) -> None:
        """Removes the file and its name from the environment, if this object has made them."""
        if self._is_named and self._environment.get(FILE_VARIABLE) == self.path:
            del self._environment[FILE_VARIABLE]
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = ""


def secret_of(environment: Mapping[str, str]) -> Optional[str]:
    """The secret that an environment names; None if it names none."""
    path = environment.get(FILE_VARIABLE)
    return read_secret(path) if path else environment.get(TEXT_VARIABLE)


def read_secret(path: str) -> str:
    """The secret in a file; ``ValueError`` if other users can read it."""
    facts = os.stat(path)
    if not stat.S_ISREG(facts.st_mode) or facts.st_uid not in (os.getuid(), 0) or facts.st_mode & 0o077:
        raise ValueError(
            f"the secret file {path} must be a file that belongs to this user or to root, and that nobody else can "
            "read (chmod 600)"
        )
    return Path(path).read_text().strip()
