"""A worker of an elastic job. It plays the recipe of its arguments in one process, and then as a member of the job."""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import horovod.torch as hvd  # noqa: E402
from recipe import from_words  # noqa: E402
from with_torch.elastic_training import DeliberateError, ElasticTraining  # noqa: E402
from with_torch.framework import FRAMEWORK  # noqa: E402
from with_torch.recipe import Recipe  # noqa: E402
from with_torch.seats import OneProcess  # noqa: E402

from elastic.plan import HOST, SIZE, SOCKET, Plan  # noqa: E402


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
    FRAMEWORK.prepare()
    recipe = from_words(Recipe, sys.argv[1:])
    plan = Plan(int(os.environ[SIZE]), recipe.steps, recipe.events, recipe.uncommitted)
    worker = int(os.environ["HOROVOD_HOSTNAME"].removeprefix(HOST))
    player = Player(os.environ[SOCKET])
    player.tell(kind="starts", worker=worker)
    try:
        expected, allowed = FRAMEWORK.played(recipe, OneProcess(1))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            hvd.init()
            training = ElasticTraining(recipe, plan, worker, expected, player)
            training.play()
            training.end()
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
