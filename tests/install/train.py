"""A user's script for the installation test: linear regression with averaged gradients and NumPy only."""

from __future__ import annotations

import horovod.numpy as hvd
import numpy as np

hvd.init()
assert hvd.size() == 2, hvd.size()
truth = np.array([2.0, -1.0, 0.5])
# Each rank has its own samples and its own initial weights.
random = np.random.default_rng(hvd.rank())
samples = random.normal(size=(256, 3))
weights = hvd.broadcast(random.normal(size=3), root_rank=0, name="weights")
for step in range(60):
    error = samples @ (weights - truth)
    weights -= 0.2 * hvd.allreduce(samples.T @ error / len(samples), name=f"gradient.{step}")
assert np.allclose(weights, truth, atol=1e-3), weights
gathered = hvd.allgather(weights[None], name="everyone")
assert (gathered == gathered[0]).all(), gathered
print(f"rank {hvd.rank()} of {hvd.size()} has trained")
