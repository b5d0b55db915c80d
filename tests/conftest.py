"""Fixtures of all tests."""

from __future__ import annotations

import logging
import signal
from typing import Callable, Iterator, List, Tuple

import pytest


@pytest.fixture(autouse=True, scope="session")
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the event records of jobs that fail out of the user's home folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True, scope="session")
def signals_not_ignored() -> None:
    """nohup ignores SIGHUP, and a shell SIGINT in a command in the background. Tests send both to what they start."""
    for number in (signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


class Messages(logging.Handler):
    """Keeps the texts of what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: List[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture
def messages_of() -> Iterator[Callable[[str], List[str]]]:
    """Returns a list to which each message of a logger is added until the test ends. It takes the place of pytest's
    `caplog`, without which tools/test runs the tests on ranks."""
    kept: List[Tuple[logging.Logger, Messages]] = []

    def begin(name: str) -> List[str]:
        logger, messages = logging.getLogger(name), Messages()
        logger.addHandler(messages)
        kept.append((logger, messages))
        return messages.texts

    yield begin
    for logger, messages in kept:
        logger.removeHandler(messages)
