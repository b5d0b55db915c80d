#include "collectives/transport/adasum.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "collectives/math/reduce.hpp"

namespace farandole {

namespace {

/// Grows `memory` to at least `bytes`.
std::span<std::byte> reserve(std::vector<std::byte>& memory, std::size_t bytes) {
  if (memory.size() < bytes)
    memory.resize(bytes);
  return {memory.data(), bytes};
}

} // namespace

adasum::adasum(const work& bundle, std::int32_t rank, std::int32_t members, adasum_scratch& scratch)
    : bundle_(bundle), rank_(rank), members_(members), element_(size_of(bundle.dtype)), scratch_(scratch) {
  assert(!why_no_adasum(bundle.dtype, static_cast<std::size_t>(members)));
}

error adasum::run(adasum_transport& transport) {
  take_inputs();
  ranges all;
  for (const part& part : bundle_.parts)
    all.push_back({0, part.input_bytes / element_});
  return reduce_from(1, all, transport);
}

/// Scales the inputs into the outputs; all further steps work in the outputs.
void adasum::take_inputs() {
  std::size_t absent = 0;
  for (const part& piece : bundle_.parts)
    absent += piece.output == nullptr ? piece.input_bytes : 0;
  std::byte* stand_in = reserve(scratch_.absent, absent).data();
  for (const part& piece : bundle_.parts) {
    memory_.push_back(piece.output != nullptr ? piece.output : stand_in);
    if (piece.output == nullptr)
      stand_in += piece.input_bytes;
    const std::size_t count = piece.input_bytes / element_;
    if (piece.input == nullptr)
      fill_neutral(bundle_.dtype, reduce_op::adasum, memory_.back(), count);
    else
      reduce(bundle_.dtype, reduce_op::sum, memory_.back(), std::span(&piece.input, 1), count,
             bundle_.prescale, 1.0, 1);
  }
}

/// Reduces over the members at `distance` and more. On entry, this member holds the elements `held`, combined
/// over the members at smaller distances; on return they are combined over all members.
error adasum::reduce_from(std::int32_t distance, const ranges& held, adasum_transport& transport) {
  if (distance == members_) {
    finish(held);
    return {};
  }
  const std::int32_t peer = rank_ ^ distance;
  const bool lower = rank_ < peer;
  const auto [kept, given, longest] = split(held, distance, lower);

  const std::span<std::byte> theirs = reserve(scratch_.taken, bytes_of(kept));
  if (error problem = transport.swap(adasum_phase::halves, peer, packed(given), theirs, longest))
    return problem;
  std::vector<adasum_products> products = products_with(theirs.data(), kept, lower);
  if (error problem = sum_products(distance, products, transport))
    return problem;
  combine_with(theirs.data(), kept, lower, products);

  if (error problem = reduce_from(2 * distance, kept, transport))
    return problem;

  const std::span<std::byte> results = room_for(given);
  if (error problem = transport.swap(adasum_phase::results, peer, packed(kept), results, longest))
    return problem;
  unpack(results, given);
  return {};
}

/// Sums the products over the members that hold the two vectors, in pairs of increasing distance. Both
/// members of a pair compute the same bits, since the addition of two values is commutative.
error adasum::sum_products(std::int32_t distance, std::vector<adasum_products>& products,
                           adasum_transport& transport) const {
  std::vector<adasum_products> theirs(products.size());
  const auto give = std::as_bytes(std::span(products));
  for (std::int32_t step = 1; step <= distance; step *= 2) {
    if (error problem = transport.swap(adasum_phase::products, rank_ ^ step, give,
                                       std::as_writable_bytes(std::span(theirs)), give.size()))
      return problem;
    for (std::size_t tensor = 0; tensor < products.size(); ++tensor)
      products[tensor] += theirs[tensor];
  }
  return {};
}

// On both members of a pair, vector a is that of the member with the lower rank.

std::vector<adasum_products> adasum::products_with(const std::byte* theirs, const ranges& kept,
                                                   bool lower) const {
  std::vector<adasum_products> products;
  for (std::size_t tensor = 0; tensor < kept.size(); ++tensor) {
    const std::byte* data = at(tensor, kept[tensor].from);
    const std::size_t count = kept[tensor].count();
    products.push_back(lower ? products_of(bundle_.dtype, data, theirs, count)
                             : products_of(bundle_.dtype, theirs, data, count));
    theirs += count * element_;
  }
  return products;
}

void adasum::combine_with(const std::byte* theirs, const ranges& kept, bool lower,
                          std::span<const adasum_products> products) {
  for (std::size_t tensor = 0; tensor < kept.size(); ++tensor) {
    std::byte* data = at(tensor, kept[tensor].from);
    const std::size_t count = kept[tensor].count();
    combine_adaptively(bundle_.dtype, data, lower ? data : theirs, lower ? theirs : data, count,
                       weights_of(products[tensor]));
    theirs += count * element_;
  }
}

void adasum::finish(const ranges& held) {
  for (std::size_t tensor = 0; tensor < held.size(); ++tensor) {
    std::byte* data = at(tensor, held[tensor].from);
    const std::byte* input = data;
    reduce(bundle_.dtype, reduce_op::sum, data, std::span(&input, 1), held[tensor].count(), 1.0,
           bundle_.postscale, 1);
  }
}

// ---- pieces of tensors ---------------------------------------------------------------------------

adasum::halves adasum::split(const ranges& held, std::int32_t distance, bool lower) const {
  halves result;
  for (const auto& [from, to] : held) {
    const range first{from, from + (to - from + 1) / 2}, second{first.to, to};
    result.kept.push_back(lower ? first : second);
    result.given.push_back(lower ? second : first);
  }
  // A member that has kept the first half at every distance holds the most elements.
  const std::size_t shares = 2 * static_cast<std::size_t>(distance);
  for (const part& part : bundle_.parts)
    result.longest += (part.input_bytes / element_ + shares - 1) / shares * element_;
  assert(bytes_of(result.kept) <= result.longest && bytes_of(result.given) <= result.longest);
  return result;
}

std::size_t adasum::bytes_of(const ranges& ranges) const {
  std::size_t count = 0;
  for (const range& range : ranges)
    count += range.count();
  return count * element_;
}

std::byte* adasum::at(std::size_t tensor, std::size_t element) const {
  return memory_[tensor] + element * element_;
}

/// The ranges in place if there is only one; otherwise copied into contiguous scratch memory.
std::span<const std::byte> adasum::packed(const ranges& ranges) {
  const std::size_t bytes = bytes_of(ranges);
  if (ranges.size() == 1)
    return {at(0, ranges[0].from), bytes};
  const std::span<std::byte> together = reserve(scratch_.given, bytes);
  std::byte* to = together.data();
  for (std::size_t tensor = 0; tensor < ranges.size(); ++tensor)
    if (const std::size_t length = ranges[tensor].count() * element_; length != 0) {
      std::memcpy(to, at(tensor, ranges[tensor].from), length);
      to += length;
    }
  return together;
}

/// Memory for the received ranges: in place if there is only one, otherwise scratch memory from which
/// unpack() copies them.
std::span<std::byte> adasum::room_for(const ranges& ranges) {
  const std::size_t bytes = bytes_of(ranges);
  if (ranges.size() == 1)
    return {at(0, ranges[0].from), bytes};
  return reserve(scratch_.taken, bytes);
}

void adasum::unpack(std::span<const std::byte> from, const ranges& ranges) {
  if (ranges.size() == 1)
    return;
  for (std::size_t tensor = 0; tensor < ranges.size(); ++tensor)
    if (const std::size_t length = ranges[tensor].count() * element_; length != 0) {
      std::memcpy(at(tensor, ranges[tensor].from), from.data(), length);
      from = from.subspan(length);
    }
}

} // namespace farandole
