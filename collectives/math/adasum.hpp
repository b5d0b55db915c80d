// Adaptive summation of two vectors (Maleki et al., "Scaling Distributed Training with Adaptive Summation",
// MLSys 2021): what both say alike counts once, as in an average, what they say independently adds up, as in
// a sum. How the vectors of more than two ranks come together is the paths' affair (paths/adasum.hpp).
#pragma once

#include <cstddef>

#include "messages/values/dtype.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Of two vectors a and b, or of the same piece of both: those of pieces add up.
struct adasum_products {
  double ab = 0.0;
  double aa = 0.0;
  double bb = 0.0;

  adasum_products& operator+=(const adasum_products& other);
  friend bool operator==(const adasum_products&, const adasum_products&) = default;
};

/// a and b combined are `a` of the one and `b` of the other.
struct adasum_weights {
  double a = 1.0;
  double b = 1.0;
  friend bool operator==(const adasum_weights&, const adasum_weights&) = default;
};

/// Why no set of `members` ranks can do this with tensors of `type`; kind `none` when it can. The same answer
/// on every member.
error why_no_adasum(dtype type, std::size_t members);

/// In double whatever the type, in a fixed order: the same bits on every machine.
adasum_products products_of(dtype type, const std::byte* a, const std::byte* b, std::size_t count);

/// 1 − ab/2aa and 1 − ab/2bb. A vector of norm 0 adds nothing, and the other remains as it is.
adasum_weights weights_of(const adasum_products& products);

/// Combines in double and rounds to `type`. `output` may be one of the two.
void combine_adaptively(dtype type, std::byte* output, const std::byte* a, const std::byte* b,
                        std::size_t count, const adasum_weights& weights);

} // namespace farandole
