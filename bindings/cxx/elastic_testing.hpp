// Jobs whose members change, in one process; the test sends the rendezvous the messages of a host driver.
#pragma once

#include <catch2/catch.hpp>

#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cxx/runtime_testing.hpp"

namespace farandole {

using member_ptr = std::unique_ptr<runtime>;
using starting = std::future<expected<member_ptr>>;

class started_job : public job {
public:
  started_job(std::int32_t size, std::int32_t limit, const handshake_limits& handshakes = {})
      : job({.size = size, .elastic = true, .minimum = 1, .limit = limit},
            {{"HOROVOD_ELASTIC", "1"}, {"HOROVOD_DYNAMIC_PROCESS_SETS", "1"}}, handshakes) {
    for (std::int32_t slot = 0; slot < size; ++slot)
      started(slot);
  }

  starting start(std::int32_t slot) const { return start(options_of(slot)); }
  static starting start(options options) {
    return std::async(std::launch::async,
                      [run_options = std::move(options)] { return runtime::start(run_options); });
  }

  /// Starts the members of these slots and returns them once all have joined.
  std::vector<member_ptr> together(const std::vector<std::int32_t>& slots) const {
    std::vector<starting> all;
    for (auto slot : slots)
      all.push_back(start(slot));
    std::vector<member_ptr> members;
    for (auto& starting_member : all)
      members.push_back(joined(starting_member));
    return members;
  }

  /// Waits until the member has joined, and checks that it has.
  static member_ptr joined(starting& starting) {
    auto member = starting.get();
    INFO((member ? std::string() : member.error().text));
    REQUIRE(member);
    return std::move(*member);
  }
};

/// The sum of a 1 from every member, as allreduce computes it.
inline float counted(std::vector<member_ptr>& members) {
  std::vector<floats> tensors(members.size());
  std::vector<handle> handles;
  for (std::size_t i = 0; i < members.size(); ++i) {
    tensors[i].in = {1.0F};
    auto asked = members[i]->submit(tensors[i].ask("count"));
    REQUIRE(asked);
    handles.push_back(std::move(*asked));
  }
  for (auto& handle : handles)
    REQUIRE_FALSE(handle.wait());
  return tensors[0].values[0];
}

/// The error of an operation that is submitted now.
inline error ending(runtime& member) {
  floats tensor{{1.0F}, {}};
  auto asked = member.submit(tensor.ask("ending"));
  return asked ? asked->wait() : asked.error();
}

/// Returns when all members know of this many pending changes.
inline void await_changes(const std::vector<member_ptr>& members, std::uint64_t changes) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  for (auto& member : members)
    while (member->membership_change().first < changes) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      std::this_thread::yield();
    }
}

} // namespace farandole
