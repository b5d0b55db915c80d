"""One file for each operation. Scripts import the functions from ``farandole.torch`` or ``farandole.torch.mpi_ops``.

They are a package of their own because ``farandole.torch.allreduce`` is a function and cannot be a module as well.
"""
