// Adasum of the tensors of a bundle by vector halving and distance doubling (Maleki et al., "Scaling
// Distributed Training with Adaptive Summation", MLSys 2021, AdasumRVH): at distance d a member and the one d
// places away each give half of what they hold of every tensor, agree on the products of the whole vectors
// with the 2d members that hold their pieces, and combine the halves that they keep; on the way back each two
// exchange what has become of the halves.
//
// Each tensor is a vector of its own, cut by its own length: neither fusion nor the path changes a bit of the
// result. Every element is combined by one member, so the bits are the same on all members and in every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collectives/math/adasum.hpp"
#include "collectives/transport/path.hpp"

namespace farandole {

enum class adasum_phase : std::uint8_t { halves, products, results };

/// How two members exchange bytes; what a path gives to the algorithm.
class adasum_transport {
public:
  /// Gives bytes to the peer, which gives as many as `take` holds. All members call it in step, with their
  /// own peers and lengths, of which `longest` is the greatest.
  virtual error swap(adasum_phase phase, std::int32_t peer, std::span<const std::byte> give,
                     std::span<std::byte> take, std::size_t longest) = 0;

protected:
  ~adasum_transport() = default;
};

/// What a path does with its transport while its members are in step. An error breaks the path, as in run().
using adasum_exchange = std::function<error(adasum_transport&)>;

/// A path by which members can exchange bytes for an Adasum of which they are a part.
class adasum_carrier {
public:
  /// Every member of the path calls it, with the same bundle.
  virtual outcome carry(const work& bundle, const deadline_and_abort& deadline,
                        const adasum_exchange& value) = 0;

protected:
  ~adasum_carrier() = default;
};

/// Memory of a run, kept for the next: half a bundle for what comes, as much for what goes if the bundle has
/// several tensors, and a whole one on a member that has joined.
struct adasum_scratch {
  std::vector<std::byte> given;
  std::vector<std::byte> taken;
  std::vector<std::byte> absent;
};

/// One run of one bundle, whose type and number of members why_no_adasum() has let pass.
class adasum {
public:
  adasum(const work& bundle, std::int32_t rank, std::int32_t members, adasum_scratch& scratch);
  /// After an error the outputs hold nothing of use.
  error run(adasum_transport& transport);

private:
  /// Which elements of a tensor: [from, to).
  struct range {
    std::size_t from = 0;
    std::size_t to = 0;
    std::size_t count() const { return to - from; }
  };
  using ranges = std::vector<range>; ///< by tensor
  /// What a member holds, in two: this member keeps one and gives the other.
  struct halves {
    ranges kept, given;
    /// Of the greatest half that any member has.
    std::size_t longest = 0;
  };

  void take_inputs();
  error reduce_from(std::int32_t distance, const ranges& held, adasum_transport& transport);
  error sum_products(std::int32_t distance, std::vector<adasum_products>& products,
                     adasum_transport& transport) const;
  std::vector<adasum_products> products_with(const std::byte* theirs, const ranges& kept, bool lower) const;
  void combine_with(const std::byte* theirs, const ranges& kept, bool lower,
                    std::span<const adasum_products> products);
  void finish(const ranges& held);

  halves split(const ranges& held, std::int32_t distance, bool lower) const;
  std::size_t bytes_of(const ranges& ranges) const;
  std::byte* at(std::size_t tensor, std::size_t element) const;
  std::span<const std::byte> packed(const ranges& ranges);
  std::span<std::byte> room_for(const ranges& ranges);
  void unpack(std::span<const std::byte> from, const ranges& ranges);

  const work& bundle_;
  const std::int32_t rank_;
  const std::int32_t members_;
  const std::size_t element_;
  adasum_scratch& scratch_;
  std::vector<std::byte*> memory_; ///< by tensor: the output, or what stands in for it
};

} // namespace farandole
