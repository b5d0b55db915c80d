// Suggestions for mistyped names ("did you mean ...?"): the known name with the smallest edit distance.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace farandole {

/// How many characters must be inserted, deleted, replaced or swapped with their neighbour to turn `a` into
/// `b` (optimal string alignment distance).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate with the smallest edit distance to `name`, the first of several; empty if the distance of
/// all of them is more than two fifths of the name's length.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);

/// "; did you mean 'candidate'?" to append to an error message; empty if no candidate is near.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates);

} // namespace farandole
