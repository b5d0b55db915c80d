// Elementwise reduction of several ranks' buffers into one: out[i] = post · (pre·in0[i] ⊕ pre·in1[i] ⊕ …).
// Inputs are always combined in rank order, so that every rank, every path and every run gets the same bits.
// AVX-512, AVX2 or scalar code is selected once, at run time; all three give identical results (no fused
// multiply-add, no reassociation).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "messages/values/dtype.hpp"

namespace farandole {

/// Reduces `inputs[0..n)` (n ≥ 1), each `count` elements of `type`, into `output`. `output` may be one of the
/// inputs but must not overlap any of them otherwise. No alignment is required.
///
/// - average: the sum, divided by `divisor` (the size of the set). Floats are divided by `divisor` / `postscale`
///   if that is a whole number, so the mean of equal values is exact where their sum is, and multiplied by
///   `postscale` / `divisor` otherwise. Integers are summed in 64 bits and truncated
///   toward zero once, after `postscale` and the division.
/// - float16 and bfloat16: accumulated in float and rounded once (to nearest even).
/// - float32: the scales are cast to float.
/// - Integers: wrap around, except in averages. Pre- and postscale are applied in double and truncated toward
///   zero, each on its own; a factor of exactly 1 is not applied.
/// - bool: cannot be reduced.
/// - Adasum: not elementwise, so not implemented here; see adasum.hpp.
void reduce(dtype type, reduce_op op, std::byte* output, std::span<const std::byte* const> inputs,
            std::size_t count, double prescale, double postscale, std::size_t divisor);

/// Whether reduce() must get the inputs of all ranks in one call, because a sum of some of them may not fit into
/// `type` although the result does.
constexpr bool needs_all_inputs(dtype type, reduce_op op) {
  return op == reduce_op::average && type < dtype::float16; // sums of integers for a mean have 64 bits
}

/// Fills `count` elements with the neutral element of `op` (0; 1 for product; the largest value or +∞ for
/// min; the smallest value or −∞ for max). It replaces the input of ranks that have joined.
void fill_neutral(dtype type, reduce_op op, std::byte* output, std::size_t count);

/// The name of the kernels that this machine runs: "avx512", "avx2" or "scalar".
std::string_view reduction_kernel();

} // namespace farandole
