// Moves bundles of tensors between the memories of devices, by NCCL. The communicator of a set is created when its first
// bundle needs it, and lives as long as the lane. What NCCL cannot do is left to the staged runner.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "actors/gpu/device_agreement.hpp"
#include "collectives/transport/path.hpp"
#include "cuda/nccl/communicator.hpp"
#include "cuda/nccl/device_launcher.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// How the tensors of an operation in GPU memory move.
enum class gpu_choice : std::uint8_t {
  automatic, ///< by NCCL where it can, otherwise staged
  nccl,      ///< by NCCL; the operation fails if it cannot be used
  staged,
};

/// Used on the thread of one lane.
class nccl_runner {
public:
  /// Runs a bundle in host memory.
  using host_run = std::function<error(work& bundle, const deadline_and_abort& deadline)>;

  struct options {
    /// Null: this member has no devices, and all bundles are staged.
    std::function<expected<std::shared_ptr<device_launcher>>(std::int32_t device)> launcher = {};
    std::function<expected<std::shared_ptr<nccl_library>>()> library = {};
    std::vector<device_member> members = {}; ///< of the set, by rank
    std::size_t rank = 0;                    ///< of this member, within the set
    std::array<gpu_choice, operation_count> choices{};
    /// Gets the answer of all members, for users: whether tensors move by NCCL, or else why not. May be null.
    std::function<void(const std::string& text, bool by_nccl)> remark = {};
    std::function<void()> while_waiting = [] {}; ///< called again and again while NCCL works
    std::chrono::nanoseconds connect_timeout{std::chrono::minutes(1)}; ///< for NCCL to connect the members
  };
  explicit nccl_runner(options settings) : options_(std::move(settings)) {}

  /// For records of events: "nccl", or "gpu" in a set of one, which needs no NCCL.
  std::string_view name() const { return is_alone() ? "gpu" : "nccl"; }

  /// False if the bundle is staged for sure, so that no member asks the others.
  bool may_take(const work& bundle) const;

  /// Whether the bundle moves by NCCL; the same on all members. Asks the other members if they have no communicator for
  /// its devices yet, and waits until they are connected. `unimplemented` if it could move by NCCL, has to, and a member
  /// cannot use NCCL. While a member has joined that has no communicator, bundles are staged in any case.
  expected<bool> takes(const work& bundle, const deadline_and_abort& deadline, const host_run& run_on_host);

  /// Launches a bundle that this runner takes, as path::run(). Does not wait for the device. After an error the set has to
  /// be restarted.
  outcome run(const work& bundle, const deadline_and_abort& deadline);

  /// Ends all communicators, and waits for up to 5 s until they are freed: they hold memory that the next generation needs,
  /// and threads that must not run while the process exits. Nothing can be run afterwards.
  void close();

  /// Makes launched work end that waits for other members. Its results have no defined content, so its bundles must have
  /// been given up. Nothing can be run afterwards. Does not wait.
  void abort();

  /// Waits until all members have come here, behind the same bundles: NCCL may still send for them what a member's own device
  /// has done its part of. For an orderly end. Does nothing without communicators.
  error wait_for_members(const deadline_and_abort& deadline, const host_run& run_on_host) const;

  /// The error with which a device or NCCL has failed in the background, if so. For waits that have become long.
  error failure() const;

private:
  /// For one list of devices (work::devices).
  struct group {
    std::shared_ptr<device_launcher> launcher;
    std::unique_ptr<farandole::communicator> communicator; ///< null for a set of one
    bool connected = false;
    std::string refusal; ///< why bundles on these devices are staged; empty: they are not
  };

  using decision = device_agreement::decision;

  bool is_alone() const { return options_.members.size() == 1; }
  bool is_staged(const work& bundle) const;
  error prepare(group& target, std::int32_t device, const deadline_and_abort& deadline,
                const host_run& run_on_host);
  error prepare_alone(group& target, std::int32_t device);
  expected<decision> agree(group& target, std::int32_t device, const deadline_and_abort& deadline,
                           const host_run& run_on_host);
  device_statement own_statement(group& target, std::int32_t device,
                                 std::shared_ptr<nccl_library>& library) const;
  device_statement with_id(device_statement own, nccl_library& library) const;
  device_statement begin(group& target, const device_statement& own, nccl_library& library,
                         const communicator_id& id) const;
  device_statement connect(group& target, const device_statement& own, const abort_token& abort) const;
  expected<decision> ask(const device_statement& own, const deadline_and_abort& deadline,
                         const host_run& run_on_host) const;
  wait_step step_of(const deadline_and_abort& deadline) const;

  options options_;
  std::map<std::vector<std::uint8_t>, group> groups_;
  std::shared_ptr<nccl_library> library_; ///< once a communicator has been begun
  bool aborted_ = false;
};

} // namespace farandole
