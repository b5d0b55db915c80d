// A host and how many processes it has room for: the value, and how people and scripts write it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farandole {

struct host_slots {
  std::string name;
  std::int32_t slots = 0;

  friend bool operator==(const host_slots&, const host_slots&) = default;
};

inline constexpr std::int32_t most_slots = 65536;

/// One host as it was written; slots may be left out.
struct host_entry {
  std::string_view name; ///< without the brackets of an IPv6 address
  std::optional<std::int32_t> slots;
};

/// "name", "name:2", "[fe80::1]", "[fe80::1]:2"; nothing when the text is none of these. Slots are 0 or more.
std::optional<host_entry> parse_host_entry(std::string_view text);

/// A number of slots, 0 or more; nothing when the text is none.
std::optional<std::int32_t> parse_slots(std::string_view digits);

/// Without blanks around it.
std::string_view trimmed(std::string_view text);

/// Of a host; 0 if it is not in the list.
std::int32_t slots_of(const std::vector<host_slots>& hosts, std::string_view name);

/// A host that is in the list keeps its place and gets these slots too. Whether it was in the list.
/// Together they must be `most_slots` at the most.
bool add_slots(std::vector<host_slots>& hosts, std::string_view name, std::int32_t slots);

} // namespace farandole
