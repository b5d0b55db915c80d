"""Joins the rendezvous of an elastic job to its driver."""

from __future__ import annotations

from typing import Any, Type

from farandole.runner.http.http_server import RendezvousHandler


def create_rendezvous_handler(driver: Any) -> Type[RendezvousHandler]:
    """The handler that makes ``RendezvousServer.start()`` wait for the driver, which knows the number of workers.

    :param driver: an ``ElasticDriver``
    """

    class ElasticRendezvousHandler(RendezvousHandler):
        """Serves the job of a driver."""

    ElasticRendezvousHandler.driver = driver
    return ElasticRendezvousHandler
