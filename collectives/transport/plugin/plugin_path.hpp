// A path that somebody else wrote, behind the interface of every path: passes works to the library as they
// are, and its errors back by kind.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport/path.hpp"
#include "collectives/transport/plugin/plugin_library.hpp"

namespace farandole {

struct path_setup;

struct plugin_options {
  std::string library; ///< full path
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  std::int32_t rank = 0; ///< within the set
  /// Of all members, by rank within the set.
  std::vector<std::int32_t> global_ranks;
  std::vector<std::int32_t> hosts;   ///< by rank within the set; the same number: the same host
  std::string address = "127.0.0.1"; ///< where the others reach this member
};

/// Everything on the lane's thread, open() and the destructor too.
class plugin_path : public path {
public:
  static expected<std::unique_ptr<plugin_path>> open(const plugin_options& options);
  ~plugin_path() override;
  plugin_path(const plugin_path&) = delete;
  plugin_path& operator=(const plugin_path&) = delete;

  /// What the library wants the others to know. Empty when it claims more than it may write; connect() then
  /// says so.
  std::string address() override;
  error connect(std::span<const std::string> addresses, std::int32_t rank,
                const deadline_and_abort& deadline) override;

  std::string_view name() const override { return library_.name; }
  outcome run(const work& bundle, const deadline_and_abort& deadline) override;

private:
  plugin_path(const farandole_path_table& library, plugin_options options);
  error start();
  error ended(farandole_path_status status, const char* reason, const deadline_and_abort* deadline) const;
  std::string name_of_library() const;

  const farandole_path_table& library_;
  const plugin_options options_;
  farandole_path_set set_{};
  bool is_open_ = false;
  void* opened_ = nullptr; ///< whatever the library has given, null too
  error broken_;
};

/// The path of the library that the options name.
expected<std::unique_ptr<path>> open_plugin(const path_setup& setup);

} // namespace farandole
