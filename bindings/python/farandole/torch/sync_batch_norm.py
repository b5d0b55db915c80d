"""Batch normalisation over the batches of all ranks, on CPU and GPU."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from farandole.torch import mpi_ops
from farandole.torch.mpi_ops import Sum


class SyncBatchNorm(_BatchNorm):
    """Like ``torch.nn.BatchNorm``, with mean and variance over the batches of all ranks.

    :param num_features: the size of the second dimension
    :param eps: added to the variance
    :param momentum: the weight of a new value in the running statistics; None for a cumulative average
    :param affine: learn a weight and a bias
    :param track_running_stats: keep running statistics for evaluation
    """

    counts_rows = True
    """Whether the samples of this rank count in the mean and the variance."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: Optional[float] = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalises; all ranks must take part in training mode."""
        self._check_input_dim(input)
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        use_batch = self.training or (self.running_mean is None and self.running_var is None)
        if use_batch and mpi_ops.size() > 1:
            normalised, mean, variance, count = _SyncBatchNorm.apply(
                input, self.weight, self.bias, self.eps, self.counts_rows
            )
            if self.training and self.track_running_stats:
                self._track(mean, variance, count)
            return normalised
        tracking = self.training and self.track_running_stats
        return functional.batch_norm(
            input,
            self.running_mean if not self.training or self.track_running_stats else None,
            self.running_var if not self.training or self.track_running_stats else None,
            self.weight,
            self.bias,
            use_batch,
            self._factor() if tracking else 0.0,
            self.eps,
        )

    def _factor(self) -> float:
        if self.momentum is None:
            return 1.0 / float(self.num_batches_tracked) if self.num_batches_tracked is not None else 0.0
        return self.momentum

    @torch.no_grad()
    def _track(self, mean: torch.Tensor, variance: torch.Tensor, count: torch.Tensor) -> None:
        if self.running_mean is None or self.running_var is None:
            return
        factor = self._factor()
        total = float(count)
        unbiased = variance * (total / max(total - 1.0, 1.0))
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), factor)


def _per_channel(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return tensor.view([1, -1] + [1] * (like.dim() - 2))


class _SyncBatchNorm(torch.autograd.Function):
    """Forward gathers each rank's statistics and combines them; backward needs two sums over all ranks."""

    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        weight: Optional[torch.Tensor],
        bias: Optional[torch.Tensor],
        eps: float,
        counts_rows: bool,
    ) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        wide = torch.promote_types(input.dtype, torch.float32)
        x = input.to(wide)
        others = [dim for dim in range(x.dim()) if dim != 1]
        own_count = x.numel() // x.size(1) if counts_rows else 0
        # A rank without samples has a count of zero, so its statistics have no weight. They are zeros, not NaN.
        own_mean = x.mean(others) if own_count else x.new_zeros(x.size(1))
        own_variance = x.var(others, unbiased=False) if own_count else x.new_zeros(x.size(1))
        handles = [
            mpi_ops.allgather_async(x.new_tensor([own_count]).view(1, 1), "sync_batch_norm.count"),
            mpi_ops.allgather_async(own_mean.unsqueeze(0).contiguous(), "sync_batch_norm.mean"),
            mpi_ops.allgather_async(
                torch.rsqrt(own_variance + eps).unsqueeze(0).contiguous(), "sync_batch_norm.invstd"
            ),
        ]
        counts, means, invstds = (mpi_ops.synchronize(handle) for handle in handles)
        count = counts.sum()
        mean = (means * counts).sum(0) / count
        variances = invstds.reciprocal().square() - eps
        variance = ((variances + (means - mean).square()) * counts).sum(0).div(count).clamp_(min=0)
        invstd = torch.rsqrt(variance + eps)
        normalised = (x - _per_channel(mean, x)) * _per_channel(invstd, x)
        ctx.save_for_backward(x, weight, mean, invstd, count)
        ctx.counts_rows = counts_rows
        ctx.types = (input.dtype, None if weight is None else weight.dtype, None if bias is None else bias.dtype)
        ctx.mark_non_differentiable(mean, variance, count)
        output = normalised
        if weight is not None:
            output = output * _per_channel(weight.to(wide), x)
        if bias is not None:
            output = output + _per_channel(bias.to(wide), x)
        return output.to(input.dtype), mean, variance, count

    @staticmethod
    @once_differentiable  # the reductions in it are not recorded, so second derivatives would be wrong
    def backward(ctx: Any, grad_output: torch.Tensor, *_: Any) -> Tuple[Optional[torch.Tensor], ...]:
        x, weight, mean, invstd, count = ctx.saved_tensors
        input_type, weight_type, bias_type = ctx.types
        dy = grad_output.to(x.dtype)
        others = [dim for dim in range(x.dim()) if dim != 1]
        centred = x - _per_channel(mean, x)
        sum_dy = dy.sum(others)
        sum_dy_xmu = (dy * centred).sum(others)
        grad_weight = (sum_dy_xmu * invstd).to(weight_type) if ctx.needs_input_grad[1] else None
        grad_bias = sum_dy.to(bias_type) if ctx.needs_input_grad[2] else None
        grad_input = None
        if ctx.needs_input_grad[0]:
            # Weight and bias keep this rank's own sums: the optimizer reduces them.
            handles = [
                mpi_ops.allreduce_async(sum_dy, op=Sum, name="sync_batch_norm.sum_dy"),
                mpi_ops.allreduce_async(sum_dy_xmu, op=Sum, name="sync_batch_norm.sum_dy_xmu"),
            ]
            all_dy, all_dy_xmu = (mpi_ops.synchronize(handle) / count for handle in handles)
            slope = invstd if weight is None else invstd * weight.to(x.dtype)
            inner = dy
            if ctx.counts_rows:
                inner = dy - _per_channel(all_dy, x) - centred * _per_channel(all_dy_xmu * invstd.square(), x)
            grad_input = (inner * _per_channel(slope, x)).to(input_type)
        return grad_input, grad_weight, grad_bias, None, None
