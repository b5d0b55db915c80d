"""The benchmark of tensors in GPU memory, ``tools/bench cuda``: Farandole and its rivals on one GPU."""
