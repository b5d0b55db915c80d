// The table of data paths: one row for each path says everything in which paths differ. Routing, data_paths,
// the checks of a forced path and the reports are loops over it, so a new path is a folder and a row here.
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

  /// Empty: the path moves it.
  constexpr std::string_view operator[](operation asked) const {
    return reasons_[static_cast<std::size_t>(asked)];
  }

private:
  constexpr std::string_view& operator()(operation asked) {
    return reasons_[static_cast<std::size_t>(asked)];
  }

  std::array<std::string_view, operation_count> reasons_{};
};

/// Which settings give a path the operations that it moves. FARANDOLE_CPU_PATH forces a path by its name.
enum class path_choice : std::uint8_t {
  always,    ///< all: it has them whatever path is forced
  switched,  ///< switches of its own, while no path is forced; it cannot be forced
  automatic, ///< its name, and that no path is forced
  by_name,   ///< its name alone
};

/// Whether the receiver knows that its bytes came from a member of the job, unchanged.
enum class path_protection : std::uint8_t {
  authenticated,
  by_device, ///< the path decides for each network device, when it opens
  none,      ///< needs a network that the user trusts, and a warning says so
  unknown,   ///< the user's own library knows
};

struct path_row {
  std::string_view name;
  std::string_view needs; ///< of a set, for error texts
  bool (*serves)(const set_facts& set);
  unmoved_operations why_not{};
  path_choice choice = path_choice::by_name;
  /// Whether its switches give it the operation; for `path_choice::switched` alone.
  bool (*is_switched_on)(const path_wishes& wishes, const set_facts& set, operation asked) = nullptr;
  /// The path that takes those bundles of its operations that it refuses by path::moves(). Empty: none.
  std::string_view rest_goes_by{};
  path_protection protection = path_protection::none;
  /// Why an elastic job cannot use it; empty: it can.
  std::string_view not_elastic{};
  /// The full path of the library that the path comes from. Such a path may leave operations to others, and
  /// those go as if no path was forced. Null: it is Farandole's own.
  expected<std::string> (*library)(const path_options& options) = nullptr;
  /// What it leaves to other paths besides the operations that its library does not move, for the log.
  std::string_view also_leaves{};
  /// It waits for neighbours without knowing which of them is missing; paths that know are connected first.
  bool connects_last = false;
  /// Whether this build and this machine have it, tried and not assumed. Null: reports leave the path aside.
  bool (*available)() = nullptr;
  /// Opens it for one set, on the lane's thread; path::connect() follows.
  expected<std::unique_ptr<path>> (*open)(const path_setup& setup);

  constexpr bool moves(operation asked) const { return why_not[asked].empty(); }
  constexpr bool can_be_forced() const {
    return choice == path_choice::automatic || choice == path_choice::by_name;
  }
};

/// In the order of preference.
std::span<const path_row> path_table();

/// Null where the table has no such path: "auto" for one.
const path_row* find_path(std::string_view name);

} // namespace farandole
