"""Two compressors of one's own, one that changes tensors and one that owns the exchange, tried on a small regression.

    horovodrun -np 4 python docs/examples/custom_compression.py

docs/guides/compression.md explains them.
"""

import horovod.torch as hvd
import torch
from horovod.torch.compression import Allgather


class Rounded:
    """Changes tensors: they travel with three significant digits. Error feedback makes up for the others."""

    @staticmethod
    def compress(tensor):
        return tensor.to(torch.bfloat16), tensor.dtype

    @staticmethod
    def decompress(tensor, ctx):
        return tensor.to(ctx)


BITS = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8)


def signs(name, tensor, how):
    """Owns the exchange: each rank's signs travel, eight in a byte, and one number for how large the entries are.

    Karimireddy et al., Error feedback fixes SignSGD, ICML 2019, algorithm 1.
    """
    flat = tensor.reshape(-1)
    scale = flat.abs().mean().reshape(1)
    positive = torch.nn.functional.pad(flat >= 0, (0, -len(flat) % 8)).view(-1, 8)
    packed = (positive * BITS).sum(1, dtype=torch.uint8)
    # Both are gathered at once; the answers come in the same order.
    all_packed, all_scales = yield [Allgather(packed, "signs"), Allgather(scale, "scale")]

    def unpacked(each, of_scale):
        bits = (each.unsqueeze(1) & BITS).ne(0).view(-1)[: len(flat)]
        return torch.where(bits, of_scale, -of_scale).view(tensor.shape)

    total = torch.zeros_like(tensor)
    for each, of_scale in zip(all_packed.split(len(packed)), all_scales):
        total += unpacked(each, of_scale)
    # What is gathered is not scaled by anybody: how.factor makes of a sum what the caller wants.
    return total * how.factor, unpacked(packed, scale)


def train(compression, steps=60):
    """The mean squared error at the end, over all workers."""
    torch.manual_seed(1)
    wanted = torch.randn(32, 64)
    model = torch.nn.Linear(64, 32)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters(), compression=compression
    )
    generator = torch.Generator().manual_seed(hvd.rank())
    for _ in range(steps):
        x = torch.randn(64, 64, generator=generator)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), x @ wanted.t())
        loss.backward()
        optimizer.step()
    return hvd.allreduce(loss.detach(), name="loss").item()


def main():
    hvd.init()
    torch.set_num_threads(1)
    for title, compression in (
        ("none", hvd.Compression.measured(hvd.Compression.none)),
        ("rounded", hvd.Compression.custom(Rounded)),
        ("signs", hvd.Compression.custom(signs)),
    ):
        loss = train(compression)
        report = compression.bytes_on_wire()
        if hvd.rank() == 0:
            print(f"{title}: loss {loss:.4f}, {report.sent:,} of {report.raw:,} bytes sent", flush=True)


if __name__ == "__main__":
    main()
