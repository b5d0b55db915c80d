// A host and its number of slots: the value, and the text form that users and scripts write.
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

/// A parsed host; the number of slots may be missing.
struct host_entry {
  std::string_view name; ///< without the brackets of an IPv6 address
  std::optional<std::int32_t> slots;
};

/// Parses "name", "name:2", "[fe80::1]" or "[fe80::1]:2"; empty for other texts. Slots are 0 or more. A name consists
/// of letters, digits, dots, dashes and underscores, and does not begin with a dash. "user@name" is no name: all parts
/// of a job compare hosts by name, and the user of ssh belongs in its configuration.
std::optional<host_entry> parse_host_entry(std::string_view text);

/// What to add to the error about a name that parse_host_entry() has refused; may be empty.
std::string_view host_name_hint(std::string_view refused);

/// Parses a number of slots, 0 or more; empty if the text is not one.
std::optional<std::int32_t> parse_slots(std::string_view digits);

/// The text without surrounding blanks.
std::string_view trimmed(std::string_view text);

/// The slots of a host; 0 if it is not in the list.
std::int32_t slots_of(const std::vector<host_slots>& hosts, std::string_view name);

/// Adds slots to a host, which is appended if it is not in the list. Returns whether it was in the list. The
/// sum of its slots must not exceed `most_slots`.
bool add_slots(std::vector<host_slots>& hosts, std::string_view name, std::int32_t slots);

} // namespace farandole
