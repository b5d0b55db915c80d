// Infers training steps from recurring names, for programs that do not mark them. A step calls the same tensors as the
// step before, in nearly the same order, so it begins where the first name of the cycle recurs.
//
// A name begins steps if most calls lie between occurrences of it that enclose equal collections of names. Of such names,
// the one with most of these steps counts, so that something that happens after each tenth step does not hide them. The
// order within a step does not matter, and a name may occur several times in a step. If no name does so, for example because
// the order is random, the names that occur equally often decide, provided that most calls are theirs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace farandole {

/// The names with which steps begin, most frequent kind of step first; empty: nothing recurs. A second kind of step is
/// recognised if it recurs without a step of the first kind in between, as evaluation between epochs does. Steps that
/// alternate one by one are one step.
///
/// `names` are those of the calls of one rank, in order. Those that occur once, such as names of a warm-up, do not matter.
std::vector<std::uint32_t> step_beginnings(std::span<const std::uint32_t> names);

} // namespace farandole
