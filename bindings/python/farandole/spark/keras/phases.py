"""Runs the steps of a model of Keras, and takes the means of its loss and metrics over the rows of all ranks."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from farandole.spark.common.steps import Exchange, Means
from farandole.spark.keras.columns import Batch
from farandole.spark.keras.formats import is_own

Logs = Dict[str, Any]


class Phase:
    """The steps of one kind, to train or to validate, in one epoch after the other.

    The metrics of Keras are sums over rows, which Keras itself adds over replicas: the sums of all ranks are added. If
    a step of the user returns values that are not the model's metrics, they are averaged over rows.

    :param model: a compiled model
    :param name: ``train`` or ``test``
    :param exchange: sums over all ranks
    """

    def __init__(self, model: Any, name: str, exchange: Exchange) -> None:
        self._model = model
        self._exchange = exchange
        self._name = name
        self._functions: Dict[int, Callable[[Any], Logs]] = {}
        definer = next(each for each in type(model).__mro__ if f"{name}_step" in vars(each))
        self._is_users = not is_own(definer)
        self._means: Optional[Means] = None

    def start(self) -> None:
        """Begins an epoch."""
        self._model.reset_metrics()
        self._means = None

    def step(self, batch: Batch, counts: bool = True) -> Logs:
        """Runs a step. Returns the values that it logs.

        :param counts: False for rows that only keep this rank in step with the others: they change neither the
            metrics nor variables that are not trained, such as those of batch normalisation
        """
        before = {} if counts else {id(each): (each, each.numpy()) for each in self._untrained()}
        # Keras weighs the losses of several outputs by the number of rows only where the graph knows this number.
        if batch.rows not in self._functions:
            self._functions[batch.rows] = _function(self._model, self._name)
        logs = self._functions[batch.rows](batch.data)
        if self._is_users:
            if self._means is None:
                self._names = list(logs)
                self._means = Means(self._names)
            self._means.add([logs[name] for name in self._names], batch.rows if counts else 0.0)
        if not counts:
            if any(id(each) not in before for each in self._metric_variables()):
                self._model.reset_metrics()  # this step has created them
            for variable, value in before.values():
                variable.assign(value)
        return logs

    @property
    def needs_a_step(self) -> bool:
        """Whether a rank without rows must run a step, to learn the names that the user's step logs."""
        return self._is_users and self._means is None

    def results(self) -> Logs:
        """The means over the rows of all ranks, by name. All ranks call it together."""
        results = self._model.get_metrics_result()
        if self._is_users and self._means is not None and set(self._names) != set(results):
            return dict(self._means.over_ranks(self._exchange))
        import numpy

        variables = self._metric_variables()
        values = [numpy.asarray(each.numpy()) for each in variables]
        totals = self._exchange([float(number) for value in values for number in value.reshape(-1)])
        start = 0
        for variable, value in zip(variables, values):
            numbers = totals[start : start + value.size]
            variable.assign(numpy.array(numbers).reshape(value.shape).astype(value.dtype))
            start += value.size
        return {name: _plain(value) for name, value in self._model.get_metrics_result().items()}

    def _metric_variables(self) -> List[Any]:
        return [variable for metric in self._model.metrics for variable in metric.variables]

    def _untrained(self) -> List[Any]:
        every = [*self._model.non_trainable_variables, *self._metric_variables()]
        return list({id(each): each for each in every}.values())


def _function(model: Any, name: str) -> Callable[[Any], Logs]:
    """``train_step`` or ``test_step`` of a model as a graph, unless the model is to run eagerly."""
    import tensorflow as tf

    step, counter = getattr(model, f"{name}_step"), getattr(model, f"_{name}_counter", None)

    def run(data: Any) -> Any:
        logs = step(data)
        if counter is not None:
            counter.assign_add(1)  # callbacks of tf_keras read the number of steps
        return logs

    if model.run_eagerly:
        return run
    made: Callable[[Any], Logs] = tf.function(run, reduce_retracing=True, autograph=False)
    return made


def _plain(value: Any) -> Any:
    import numpy

    array = numpy.asarray(value.numpy() if hasattr(value, "numpy") else value)
    return float(array) if array.size == 1 else array.tolist()
