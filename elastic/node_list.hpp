// Slurm describes the hosts of an allocation in a compact notation, "r[1-2]n[01-10,12],login", and their tasks in
// another, "2(x3),1". These parsers expand both. A range of a few characters can stand for any number of hosts, so
// the size of a result is computed and compared with the limit before anything is expanded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "elastic/host_slots.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Each host of a job has at least one slot.
inline constexpr std::size_t most_hosts = most_slots;
/// In characters; DNS allows no longer name.
inline constexpr std::size_t longest_host_name = 253;

/// Expands a list of host names. Groups are separated by commas. In a group, brackets hold numbers and ranges; the
/// numbers of a range are padded with zeros to the width of its first number, and the last brackets vary fastest.
/// Text may follow brackets. The result keeps the order of the list, and names may occur in it twice. The error says
/// which part of the list is wrong; the caller adds where the list comes from.
expected<std::vector<std::string>> expand_node_list(std::string_view list);

/// Expands a number for each host: "2(x3),1" is 2, 2, 2, 1. All numbers are 1 or more.
expected<std::vector<std::int32_t>> expand_node_counts(std::string_view counts);

/// Whether a text is a host name without a number of slots.
bool is_host_name(std::string_view text);

} // namespace farandole
