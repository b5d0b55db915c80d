// The table of data paths. The row of a path states every property in which paths differ. Routing,
// data_paths, the checks of a forced path and the reports loop over the table, so a new path is a folder and
// a row here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "messages/values/error.hpp"
#include "messages/values/signature.hpp"

namespace farandole {

class path;
struct path_options;
struct path_setup;
struct path_wishes;
struct set_facts;

/// Operations that a path does not move, each with the reason. No path moves `join`.
class unmoved_operations {
public:
  using reason = std::pair<operation, std::string_view>;
  constexpr unmoved_operations(std::initializer_list<reason> reasons = {}) {
    (*this)(operation::join) = "join moves nothing";
    for (const auto& [asked, text] : reasons)
      (*this)(asked) = text;
  }

  /// The reason why the path does not move the operation; empty if it does.
  constexpr std::string_view operator[](operation asked) const {
    return reasons_[static_cast<std::size_t>(asked)];
  }

private:
  constexpr std::string_view& operator()(operation asked) {
    return reasons_[static_cast<std::size_t>(asked)];
  }

  std::array<std::string_view, operation_count> reasons_{};
};

/// Which settings select a path for the operations that it moves. FARANDOLE_CPU_PATH forces a path by its
/// name.
enum class path_choice : std::uint8_t {
  always,    ///< selected under all settings, even if another path is forced
  switched,  ///< selected by switches of its own while no path is forced; it cannot be forced
  automatic, ///< selected by its name, and while no path is forced
  by_name,   ///< selected by its name only
};

/// Whether the receiver can verify that its bytes came from a member of the job, unchanged.
enum class path_protection : std::uint8_t {
  authenticated,
  by_device, ///< the path decides for each network device, when it opens
  none,      ///< needs a network that the user trusts; the job logs a warning
  unknown,   ///< depends on the user's own library
};

struct path_row {
  std::string_view name;
  std::string_view needs; ///< requirement on the set, for error texts
  bool (*serves)(const set_facts& set);
  unmoved_operations why_not{};
  path_choice choice = path_choice::by_name;
  /// Whether its switches select it for the operation; only for `path_choice::switched`.
  bool (*is_switched_on)(const path_wishes& wishes, const set_facts& set, operation asked) = nullptr;
  /// The path that moves the bundles that path::moves() of this path refuses. Empty: none.
  std::string_view rest_goes_by{};
  path_protection protection = path_protection::none;
  /// Why an elastic job cannot use it; empty: it can.
  std::string_view not_elastic{};
  /// Whether it listens on ports of its own choice, outside FARANDOLE_PORT_RANGE.
  bool chooses_ports = false;
  /// Returns the full path of the library that implements the path. Operations that the library does not move
  /// are routed as if no path was forced. Null for Farandole's own paths.
  expected<std::string> (*library)(const path_options& options) = nullptr;
  /// For the log: work that it leaves to other paths, besides the operations that its library does not move.
  std::string_view also_leaves{};
  /// Whether connect() waits for neighbours without knowing which of them is missing. Paths that can name the
  /// missing member are connected first.
  bool connects_last = false;
  /// Whether the path works in this build on this machine, found by trying it. Null: reports omit the path.
  bool (*available)() = nullptr;
  /// Opens the path for one set, on the lane's thread. path::connect() follows.
  expected<std::unique_ptr<path>> (*open)(const path_setup& setup);

  constexpr bool moves(operation asked) const { return why_not[asked].empty(); }
  constexpr bool can_be_forced() const {
    return choice == path_choice::automatic || choice == path_choice::by_name;
  }
};

/// In the order of preference.
std::span<const path_row> path_table();

/// Null if the table has no path of this name, as for "auto".
const path_row* find_path(std::string_view name);

} // namespace farandole
