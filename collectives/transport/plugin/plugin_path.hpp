// Adapts a third-party library to the interface `path`: passes works to the library unchanged, and converts
// its status codes to errors.
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
  /// Ranks in the job of all members, by rank within the set.
  std::vector<std::int32_t> global_ranks;
  std::vector<std::int32_t> hosts;   ///< by rank within the set; the same number: the same host
  std::string address = "127.0.0.1"; ///< address at which the other members reach this one
};

/// All functions, open() and the destructor included, must be called on the lane's thread.
class plugin_path : public path {
public:
  static expected<std::unique_ptr<plugin_path>> open(const plugin_options& options);
  ~plugin_path() override;
  plugin_path(const plugin_path&) = delete;
  plugin_path& operator=(const plugin_path&) = delete;

  /// The library's path address. Empty if the library claims to have written more bytes than allowed;
  /// connect() then returns that error.
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
  void* opened_ = nullptr; ///< the library's own pointer, which may be null
  error broken_;
};

/// The path of the library that the options name.
expected<std::unique_ptr<path>> open_plugin(const path_setup& setup);

} // namespace farandole
