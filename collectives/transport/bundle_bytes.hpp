// Functions that all CPU paths share for the bytes of a bundle: refuse bundles that cannot be reduced, read
// inputs (or the neutral element for a member that has joined), and write results.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/transport/path.hpp"
#include "collectives/transport/tensor_stream.hpp"

namespace farandole {

/// Why a CPU path between `members` members cannot move this bundle: it has a tensor on a device, or cannot
/// be reduced. Kind `none` if the path can move it.
error why_not_on_cpu(const work& bundle, std::size_t members);

std::size_t bytes_of_inputs(const work& bundle);
/// The bytes of this member's inputs or of its outputs, whichever are more.
std::size_t larger_side(const work& bundle);

/// The address of the piece's input; null for a member that has joined, and for a piece of 0 bytes.
const std::byte* input_in_place(const work& bundle, const tensor_stream::piece& piece);

/// The offset of the bytes of `rank` in a part that consists of `sizes[part * members + rank]` bytes for each
/// rank, in rank order.
std::size_t start_of(std::span<const std::size_t> sizes, std::size_t part, std::size_t rank,
                     std::size_t members);

/// Copies the piece's input to `to`, or fills `to` with the neutral element if there is no input.
void copy_input(const work& bundle, const tensor_stream::piece& piece, std::byte* to);

/// Copies `from` to the piece's output, if there is one.
void copy_output(const work& bundle, const tensor_stream::piece& piece, const std::byte* from);

/// Calls reduce() with the bundle's dtype, reduce op and scales, and one input for each member of the set.
/// Adasum: only for a set of one member.
void reduce_inputs(const work& bundle, std::byte* output, std::span<const std::byte* const> inputs,
                   std::size_t bytes);

} // namespace farandole
