"""A worker of an elastic job. It plays the recipe of its arguments in one process, and then as a member of the job. The
first argument is the framework."""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import farandole.numpy as job  # noqa: E402
from recipe import from_words  # noqa: E402

from elastic.plan import HOST, SIZE, SOCKET  # noqa: E402
from elastic.recipes import of_framework, plan_of  # noqa: E402
from elastic.training import DeliberateError, Place  # noqa: E402


class Player:
    """The connection to the player."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)

    def tell(self, **message: Any) -> None:
        self._socket.sendall(f"{json.dumps(message)}\n".encode())

    def change(self, event: str) -> None:
        self.tell(kind="change", event=event)
        if not self._socket.recv(1):
            raise ConnectionError("the player has ended")


def main() -> None:
    name, *words = sys.argv[1:]
    used = of_framework(name)
    used.prepare()
    training = importlib.import_module(f"with_{name}.elastic_training").TRAINING
    recipe = from_words(used.kind, words)
    plan = plan_of(recipe, int(os.environ[SIZE]))
    worker = int(os.environ["HOROVOD_HOSTNAME"].removeprefix(HOST))
    player = Player(os.environ[SOCKET])
    player.tell(kind="starts", worker=worker)
    try:
        expected, allowed = used.played(recipe, used.one_process(1))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            job.init()
            training(recipe, Place(plan, worker, expected, player)).play_elastically()
        given = {f"{each.category.__name__}: {each.message}" for each in caught}
        player.tell(kind="ends", warnings=sorted(given - {*allowed}))
    except SystemExit:
        player.tell(kind="leaves")
        raise
    except DeliberateError:
        raise
    except BaseException:
        player.tell(kind="error", text=traceback.format_exc())
        raise


if __name__ == "__main__":
    main()
