"""Which parameters of an optimizer are reduced, by what names and in which groups."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple

import torch

from farandole.common.process_sets import ProcessSet
from farandole.common.reduction import partition
from farandole.torch.functions import broadcast_object
from farandole.torch.parameter_names import names_of, names_of_new


class ReducedParameters:
    """Parameters by index: first those that want a gradient when they come, then those that do later, as they do.

    :param param_groups: of the optimizer
    """

    def __init__(
        self, param_groups: List[Dict[str, Any]], named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]]
    ) -> None:
        everything = [parameter for group in param_groups for parameter in group["params"]]
        self._name_of = names_of(param_groups, named_parameters)
        self._frozen = [each for each in everything if not each.requires_grad]
        self.tensors = [each for each in everything if each.requires_grad]
        self.names = [self._name_of[each] for each in self.tensors]

    def groups_of(self, groups: Any, process_set: ProcessSet) -> Optional[List[List[int]]]:
        """The groups that a user has asked for, as indices."""
        if groups is None:
            return None
        indices = list(range(len(self.names)))
        if isinstance(groups, int):
            index_of_name = {name: index for index, name in enumerate(self.names)}
            # Ranks may list their parameters in different orders; groups must be the same everywhere.
            first = (process_set.ranks or [0])[0]
            agreed = broadcast_object(self.names, first, "DistributedOptimizer.groups", process_set)
            indices = [index_of_name[name] for name in agreed]
        index_of = {id(parameter): index for index, parameter in enumerate(self.tensors)}
        return partition(indices, groups, lambda parameter: index_of.get(id(parameter)))

    def add_last_group(self, param_groups: List[Dict[str, Any]]) -> None:
        """Takes the group that came last; its parameters count as frozen until they are ``thawed``.

        :raises ValueError: where one has the name of another parameter
        """
        self._name_of.update(names_of_new(param_groups, self._name_of))
        self._frozen += param_groups[-1]["params"]

    def thawed(self) -> List[int]:
        """The indices of parameters that did not want a gradient when they came, and do now."""
        thawed = [each for each in self._frozen if each.requires_grad]
        if thawed:
            self._frozen = [each for each in self._frozen if not each.requires_grad]
            self.tensors += thawed
            self.names += [self._name_of[each] for each in thawed]
        return list(range(len(self.tensors) - len(thawed), len(self.tensors)))
