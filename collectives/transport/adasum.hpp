// Adasum of the tensors of a bundle by vector halving and distance doubling (Maleki et al., "Scaling
// Distributed Training with Adaptive Summation", MLSys 2021, AdasumRVH). At distance d, a member and the
// member d ranks away each send the other half of the elements that they hold of every tensor. The 2d members
// that hold pieces of the two vectors sum the products of the whole vectors, and each member combines the
// halves that it keeps. On the way back, each pair exchanges the combined halves.
//
// Each tensor is a separate vector and is cut by its own length, so neither fusion nor the path changes a bit
// of the result. Every element is combined by one member, so the bits are the same on all members and in
// every run.
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

/// Exchanges bytes between two members. Each path implements it for the algorithm.
class adasum_transport {
public:
  /// Sends `give` to the peer and receives from it as many bytes as `take` holds. All members call it in
  /// step, each with its own peer and lengths. `longest` is the greatest length of any member.
  virtual error swap(adasum_phase phase, std::int32_t peer, std::span<const std::byte> give,
                     std::span<std::byte> take, std::size_t longest) = 0;

protected:
  ~adasum_transport() = default;
};

/// Runs over the transport of a path while the members of the path are in step. An error makes the path
/// unusable, as in run().
using adasum_exchange = std::function<error(adasum_transport&)>;

/// A path over which its members can exchange bytes for an Adasum. The Adasum may have more members than the
/// path.
class adasum_carrier {
public:
  /// Calls `value` with the transport of this path. Every member of the path calls it, with the same bundle.
  virtual outcome carry(const work& bundle, const deadline_and_abort& deadline,
                        const adasum_exchange& value) = 0;

protected:
  ~adasum_carrier() = default;
};

/// Memory of a run, kept for the next run:
///
/// - `given`: half a bundle to send; used only if the bundle has several tensors.
/// - `taken`: half a bundle of received bytes.
/// - `absent`: a whole bundle; used only on a member that has joined.
struct adasum_scratch {
  std::vector<std::byte> given;
  std::vector<std::byte> taken;
  std::vector<std::byte> absent;
};

/// One run of one bundle. why_no_adasum() must have accepted its dtype and its number of members.
class adasum {
public:
  adasum(const work& bundle, std::int32_t rank, std::int32_t members, adasum_scratch& scratch);
  /// After an error the contents of the outputs are undefined.
  error run(adasum_transport& transport);

private:
  /// Elements [from, to) of a tensor.
  struct range {
    std::size_t from = 0;
    std::size_t to = 0;
    std::size_t count() const { return to - from; }
  };
  using ranges = std::vector<range>; ///< by tensor
  /// The elements that a member holds, in two halves: this member keeps one and sends the other.
  struct halves {
    ranges kept, given;
    /// Bytes of the largest half on any member.
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
  std::vector<std::byte*> memory_; ///< by tensor: the output, or the scratch memory that replaces it
};

} // namespace farandole
