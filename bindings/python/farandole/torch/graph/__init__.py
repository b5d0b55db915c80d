"""The operations as operators for ``torch.compile``. Each is one node of the graph, with a shape that is known at
compile time and a gradient that consists of such nodes.

Arguments that a graph cannot hold (process sets, compressors) are resolved to numbers while Dynamo traces. Dynamo
guards these numbers, so a graph is not reused in a generation with other members.
"""

from __future__ import annotations

from farandole.torch.graph.node import is_tracing
