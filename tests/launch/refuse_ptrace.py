"""Runs a command to which the kernel refuses access to the memory and the descriptors of other processes.

The seccomp profiles of containers do the same. The system calls fail with EPERM; the program proves that before it runs
the command.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

# Numbers of ptrace, process_vm_readv, process_vm_writev and pidfd_getfd.
CALLS = {"x86_64": (101, 310, 311, 438), "aarch64": (117, 270, 271, 438)}

LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # classic BPF
ALLOW, FAIL = 0x7FFF0000, 0x00050000
SET_NO_NEW_PRIVS, SET_SECCOMP, FILTER_MODE = 38, 22, 2  # prctl


def refuse(numbers: tuple[int, ...]) -> None:
    """Installs the filter for this process and all that it starts."""
    steps = [(LOAD_WORD, 0, 0, 0)]  # the number of the call
    steps += [(JUMP_IF_EQUAL, len(numbers) - place, 0, number) for place, number in enumerate(numbers)]
    steps += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, FAIL | errno.EPERM)]
    program = b"".join(struct.pack("HBBI", *step) for step in steps)
    filters = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(filters))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((SET_NO_NEW_PRIVS, 1, 0, 0, 0), (SET_SECCOMP, FILTER_MODE, described, 0, 0)):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), f"prctl{arguments}")
    for number in numbers:
        assert libc.syscall(number, 0, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM, number


if __name__ == "__main__":
    refuse(CALLS[platform.machine()])
    os.execvp(sys.argv[1], sys.argv[1:])
