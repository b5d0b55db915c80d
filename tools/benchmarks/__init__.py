"""Benchmarks: Farandole beside its rivals, in one run, taking turns.

`works` says what is measured and what is wanted, `stacks` how each library does it, `worker` is the process that does
it, `crew` the processes of one stack, `collectives` the rounds, `report` the tables.
"""
