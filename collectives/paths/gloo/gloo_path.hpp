// Moves bundles between members with Gloo's messages over TCP, for jobs that ask for it by name. Gloo only
// carries; what goes to whom and how it is summed is that of every path between processes
// (message_exchange.hpp), and so are the bits of the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/paths/exchange/messenger.hpp"
#include "collectives/paths/path.hpp"

namespace farandole {

struct path_setup;

struct gloo_options {
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  std::int32_t rank = 0; ///< within the set
  /// Of all members, by rank within the set.
  std::vector<std::int32_t> global_ranks{0};
  /// Of this member, where the others can reach it.
  std::string ip = "127.0.0.1";
  /// Longest message of an Adasum.
  std::size_t adasum_message_bytes = std::size_t{1} << 30;
  /// Called on the lane when a phase of a piece begins; for tests.
  std::function<void(message_phase phase, std::size_t piece)> probe;
};

/// Everything on the lane's thread, open() and the destructor too.
class gloo_path : public path {
public:
  /// Listens, and reaches nobody yet. `unimplemented` where Gloo is missing.
  static expected<std::unique_ptr<gloo_path>> open(const gloo_options& options);
  /// Says goodbye and closes.
  ~gloo_path() override;

  /// Where this member expects each of the others.
  std::string address() override;
  error connect(std::span<const std::string> addresses, std::int32_t rank, const limits& until) override;

  std::string_view name() const override { return "gloo"; }
  outcome run(const work& bundle, const limits& until) override;

private:
  class state;
  explicit gloo_path(std::unique_ptr<state> opened);
  std::unique_ptr<state> state_;
};

expected<std::unique_ptr<path>> open_gloo(const path_setup& setup);

} // namespace farandole
