"""Runs a Python function on the workers of a job: the channel to the launcher, the messages, and the results.

The interpreter that calls ``run()`` starts the launcher as a child process and shares a socket with it. Begin with
``messages`` (the protocol) and ``call`` (the state of a call).
"""
