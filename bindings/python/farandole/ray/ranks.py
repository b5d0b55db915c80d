"""Gives the actors of a job of fixed size their ranks, and the variables that belong to them."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from farandole.ray.coordinator import Coordinator
from farandole.ray.errors import Place
from farandole.ray.worker import Node


def adjacent(nodes: List[Node]) -> List[int]:
    """The numbers of the actors in an order in which those of one node are adjacent; otherwise in their order."""
    first = {node.node_id: number for number, node in reversed(list(enumerate(nodes)))}
    return sorted(range(len(nodes)), key=lambda number: (first[nodes[number].node_id], number))


def variables_by_rank(settings: Any, places: Sequence[Place], use_gpu: bool) -> List[Dict[str, Any]]:
    """The variables that tell each worker its place.

    :param places: of all workers by rank, with their nodes
    """
    coordinator = Coordinator(settings)
    gpus: Dict[str, List[str]] = {}
    for place in places:
        assert place.node is not None
        coordinator.register(place.node.hostname, place.node.node_id, place.rank)
        gpus.setdefault(place.node.node_id, []).extend(place.node.gpu_ids)
    variables: List[Dict[str, Any]] = []
    for (rank, numbers), place in zip(coordinator.finalize_registration().items(), places):
        assert place.node is not None
        own: Dict[str, Any] = {"HOROVOD_RANK": rank, "HOROVOD_SIZE": len(places), **numbers}
        own["HOROVOD_HOSTNAME"] = place.node.node_id
        own["HOROVOD_START_TIMEOUT"] = settings.timeout_s
        if use_gpu:  # each worker sees all GPUs of the job on its node, and picks one by local_rank()
            own["CUDA_VISIBLE_DEVICES"] = ",".join(sorted(set(gpus[place.node.node_id]), key=_number_first))
        variables.append(own)
    return variables


def _number_first(text: str) -> Any:
    return (0, int(text), "") if text.isdecimal() else (1, 0, text)
