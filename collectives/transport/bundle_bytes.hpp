// What every path on the CPU does with the bytes of a bundle: refuse what it cannot reduce, take inputs (or
// the neutral element of a member that has joined), and hand results out.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/transport/path.hpp"
#include "collectives/transport/tensor_stream.hpp"

namespace farandole {

/// Why a path of the CPU between so many members cannot move this: a tensor on a device, something that
/// cannot be reduced. Kind `none` when it can.
error why_not_on_cpu(const work& bundle, std::size_t members);

/// Where the piece's input stands; null for a member that has joined, and for a piece of 0 bytes.
const std::byte* input_in_place(const work& bundle, const tensor_stream::piece& piece);

/// Where the bytes of `rank` begin in a part, when each rank's are `sizes[part * members + rank]` of it, in
/// rank order.
std::size_t start_of(std::span<const std::size_t> sizes, std::size_t part, std::size_t rank,
                     std::size_t members);

/// The piece's input, or the neutral element in its place.
void copy_input(const work& bundle, const tensor_stream::piece& piece, std::byte* to);

/// Into the piece's output, if there is one.
void copy_output(const work& bundle, const tensor_stream::piece& piece, const std::byte* from);

/// reduce() as the bundle asks, one input for each member of the set. Adasum: of a set of one only.
void reduce_inputs(const work& bundle, std::byte* output, std::span<const std::byte* const> inputs,
                   std::size_t bytes);

} // namespace farandole
