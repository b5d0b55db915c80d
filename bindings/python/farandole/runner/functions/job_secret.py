"""The secret of jobs whose processes other programs start, in a file that these processes read."""

from __future__ import annotations

import os
import secrets
import stat
from typing import Mapping, MutableMapping, Optional, Tuple

FILE_VARIABLE = "FARANDOLE_SECRET_FILE"
TEXT_VARIABLE = "FARANDOLE_SECRET"


class SecretFile:
    """The file that an environment names. Where it names none, a new secret in a file of its own, which is named in the
    environment until ``close()``.

    The new file has no name in a folder, so that nothing is left of it when this process is killed. Other processes of
    this user on this host open it by ``path`` while this process lives.
    """

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        self._environment = environment
        self._descriptor = -1
        self._is_named = False
        self.path = environment.get(FILE_VARIABLE, "")
        if not self.path:
            self._write(environment.get(TEXT_VARIABLE) or secrets.token_hex(32))

    def _write(self, text: str) -> None:
        self._descriptor, self.path = file_of(text)
        if not self._environment.get(TEXT_VARIABLE):
            self._environment[FILE_VARIABLE] = self.path
            self._is_named = True

    def close(self) -> None:
        """Removes the file and its name from the environment, if this object has made them."""
        if self._is_named and self._environment.get(FILE_VARIABLE) == self.path:
            del self._environment[FILE_VARIABLE]
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


def file_of(secret: str) -> Tuple[int, str]:
    """A file in memory with this secret, which only this user can read: its descriptor, which the caller closes, and
    the path by which processes on this host open it."""
    descriptor = os.memfd_create("farandole-secret")
    os.fchmod(descriptor, 0o600)
    os.pwrite(descriptor, secret.encode(), 0)
    return descriptor, f"/proc/{os.getpid()}/fd/{descriptor}"


def secret_of(environment: Mapping[str, str]) -> Optional[str]:
    """The secret that an environment names; None if it names none."""
    path = environment.get(FILE_VARIABLE)
    return read_secret(path) if path else environment.get(TEXT_VARIABLE)


def read_secret(path: str) -> str:
    """The secret in a file; ``ValueError`` if other users can read it. The rule is that of the launcher."""
    user = os.geteuid()
    with open(path, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        facts = os.fstat(file.fileno())
        for_group = facts.st_uid == 0 and user != 0 and stat.S_IMODE(facts.st_mode) == 0o440
        private = facts.st_uid in (user, 0) and (facts.st_mode & 0o077 == 0 or for_group)
        if not stat.S_ISREG(facts.st_mode) or not private:
            raise ValueError(
                f"the secret file {path} must be a file that belongs to this user or to root, and that nobody else can "
                "read (chmod 600)"
            )
        return file.read().strip()
