"""The exception class that stands for the error message of a framework's kernel."""

from __future__ import annotations

import pytest
from farandole.common import exceptions, kernels


@pytest.mark.parametrize("begins", ["HorovodAllreduce", "HorovodGroupedReducescatter", "farandole_collective"])
@pytest.mark.parametrize(
    ("kind", "error_class"),
    [
        ("mismatch", exceptions.MismatchError),
        ("disconnected", exceptions.WorkerLostError),
        ("shut down", exceptions.ShutdownError),
        ("timed out", exceptions.OperationTimeoutError),
        ("aborted", exceptions.HorovodInternalError),
        ("overloaded", exceptions.HorovodInternalError),
    ],
)
def test_the_kind_of_an_error_is_read_from_within_the_frameworks_message(
    begins: str, kind: str, error_class: type
) -> None:
    known = kernels.error_in(
        f"UNKNOWN: {{{{function_node f}}}} {begins} ({kind}): step: rank 1 is gone [Op:__inference]"
    )
    assert type(known) is error_class and known is not None and known.kind == kind
    assert "rank 1 is gone" in str(known)


@pytest.mark.parametrize("kind", ["invalid argument", "precondition", "unimplemented"])
def test_errors_about_arguments_stay_the_frameworks_exceptions(kind: str) -> None:
    text = f"HorovodBroadcast ({kind}): weights: there is no rank 7"
    assert kernels.kind_in(text) == kind
    assert kernels.error_in(text) is None


def test_errors_from_other_sources_have_no_kind() -> None:
    for text in ("the disk is full", "Horovod (mismatch) is a word", "[[{{node HorovodAllreduce_x}}]] was cancelled"):
        assert kernels.kind_in(text) is None and kernels.error_in(text) is None
