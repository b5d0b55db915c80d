"""The operations as ``torch.compile`` sees them: each is one node of the graph, with a shape that is known beforehand
and a gradient that is made of such nodes as well.

What the public functions take and a graph cannot hold (process sets, compressors) is taken apart while Dynamo traces.
The numbers that come out are guarded: a graph is not used again in a generation of other members.
"""

from __future__ import annotations

from farandole.torch.graph.node import is_tracing
