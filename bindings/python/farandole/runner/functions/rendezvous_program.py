"""The rendezvous of a job as a child process of this interpreter (``farandole rendezvous``).

The child ends when this process closes its end of a socket, and so also when this process dies.
"""

from __future__ import annotations

import select
import signal
import socket
import subprocess
from typing import Optional, Sequence

from farandole.runner import program
from farandole.runner.functions import launcher, paths

START_S = 30.0
"""How long the program may take until it listens."""


class RendezvousProgram:
    """A running rendezvous."""

    def __init__(self, sizes: Sequence[str], address: str, port: int, secret_file: str) -> None:
        """Starts the program, and waits until it listens.

        :param sizes: the words of the command line about the number of members
        :param address: of this host, at which it listens
        """
        self._channel, theirs = socket.socketpair()
        self._process: Optional[subprocess.Popen[str]] = None
        try:
            with theirs:
                words = ["--bind", address, "--port", str(port), "--secret-file", secret_file]
                words += ["--call-descriptor", str(theirs.fileno())]
                self._process = subprocess.Popen(
                    [program.path_of_launcher(), "rendezvous", *sizes, *words],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    env=paths.environment_of(None),
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                    text=True,
                )
            self._wait_until_it_listens(address)
        except BaseException:
            self.close()
            raise
        launcher.close_in_forked_children(self)

    def _wait_until_it_listens(self, address: str) -> None:
        assert self._process is not None and self._process.stdout is not None
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        line = self._process.stdout.readline() if poll.poll(START_S * 1000) else ""
        if not line.startswith(f"{address}:"):
            raise RuntimeError(
                f"the rendezvous does not listen at {address} after {START_S:g} s, or it ended before; standard error "
                "has its reason"
            )

    def close(self) -> None:
        """Ends the program. Members of its job lose their connections."""
        self.abandon()
        if self._process is None:
            return
        try:
            self._process.wait(launcher.CLOSING_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def abandon(self) -> None:
        """Closes this process's end of the socket; all that a forked child has to do."""
        self._channel.close()
