// Adaptive summation (Adasum) of two vectors (Maleki et al., "Scaling Distributed Training with Adaptive
// Summation", MLSys 2021): parts in which the vectors agree count once, as in an average; orthogonal parts add
// up, as in a sum. The paths define how the vectors of more than two ranks are combined
// (collectives/transport/adasum.hpp).
#pragma once

#include <cstddef>

#include "messages/values/dtype.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Dot products of two vectors a and b, or of the same piece of both. The products of the pieces add up to those
/// of the vectors.
struct adasum_products {
  double ab = 0.0;
  double aa = 0.0;
  double bb = 0.0;

  adasum_products& operator+=(const adasum_products& other);
  friend bool operator==(const adasum_products&, const adasum_products&) = default;
};

/// The factors of the combination `weights.a` · a + `weights.b` · b.
struct adasum_weights {
  double a = 1.0;
  double b = 1.0;
  friend bool operator==(const adasum_weights&, const adasum_weights&) = default;
};

/// Explains why a set of `members` ranks cannot run Adasum on tensors of `type`; kind `none` if it can. The
/// result is the same on every member.
error why_no_adasum(dtype type, std::size_t members);

/// Computed in double for every type and in a fixed order, so every machine gets the same bits.
adasum_products products_of(dtype type, const std::byte* a, const std::byte* b, std::size_t count);

/// 1 − ab/2aa and 1 − ab/2bb. If one vector has norm 0, the combination equals the other vector.
adasum_weights weights_of(const adasum_products& products);

/// Combines in double and rounds to `type`. `output` may be `a` or `b`.
void combine_adaptively(dtype type, std::byte* output, const std::byte* a, const std::byte* b,
                        std::size_t count, const adasum_weights& weights);

} // namespace farandole
