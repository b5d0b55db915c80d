"""The parameters of an optimizer whose gradients are reduced, with their names and groups."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple

import torch

from farandole.common.process_sets import ProcessSet
from farandole.common.reduction import partition
from farandole.torch.functions import broadcast_object
from farandole.torch.parameter_names import names_of, names_of_new


class ReducedParameters:
    """Parameters by index: first those that require a gradient at construction, then others in the order in which
    they begin to require one.

    :param param_groups: the optimizer's parameter groups
    """

    def __init__(
        self, param_groups: List[Dict[str, Any]], named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]]
    ) -> None:
        everything = [parameter for group in param_groups for parameter in group["params"]]
        self.name_of = names_of(param_groups, named_parameters)
        self._frozen = [each for each in everything if not each.requires_grad]
        self.tensors = [each for each in everything if each.requires_grad]
        self.names = [self.name_of[each] for each in self.tensors]
        self._suffix = ""

    def groups_of(self, groups: Any, process_set: ProcessSet) -> Optional[List[List[int]]]:
        """The groups that the user has requested, as lists of indices."""
        if groups is None:
            return None
        indices = list(range(len(self.names)))
        if isinstance(groups, int):
            index_of_name = {name: index for index, name in enumerate(self.names)}
            # Groups must be the same on all ranks, but ranks may list their parameters in different orders.
            first = (process_set.ranks or [0])[0]
            agreed = broadcast_object(self.names, first, "DistributedOptimizer.groups", process_set)
            indices = [index_of_name[name] for name in agreed]
        index_of = {id(parameter): index for index, parameter in enumerate(self.tensors)}
        return partition(indices, groups, lambda parameter: index_of.get(id(parameter)))

    def add_last_group(self, param_groups: List[Dict[str, Any]]) -> None:
        """Adds the parameters of the last group. They count as frozen until ``thawed`` returns them.

        :raises ValueError: if one has the name of another parameter
        """
        self.name_of.update(names_of_new(param_groups, self.name_of))
        self._frozen += param_groups[-1]["params"]

    def thawed(self) -> List[int]:
        """Adds the frozen parameters that require a gradient now, and returns their indices."""
        thawed = [each for each in self._frozen if each.requires_grad]
        if thawed:
            self._frozen = [each for each in self._frozen if not each.requires_grad]
            self.tensors += thawed
            self.names += [self.name_of[each] + self._suffix for each in thawed]
        return list(range(len(self.tensors) - len(thawed), len(self.tensors)))

    def rename(self, suffix: str) -> None:
        """Changes the names under which gradients are sent."""
        self._suffix = suffix
        self.names[:] = [self.name_of[each] + suffix for each in self.tensors]

    def other_suffix(self) -> str:
        """The suffix that ``rename`` has not been called with last, of two."""
        return "" if self._suffix else ".2"
