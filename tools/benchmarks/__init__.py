"""Benchmarks: Farandole and its rivals in one run, in alternation.

- `works`: the measured operations and the target for each
- `stacks`: how each library carries out an operation
- `worker`: a process that carries out operations
- `worker_group`: the processes of one stack
- `collectives`: the rounds of measurements
- `report`: the tables
"""
