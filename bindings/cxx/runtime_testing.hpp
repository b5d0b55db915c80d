// For tests of whole jobs in one process: a rendezvous and several runtimes, each with its own event loop, lane and
// shared segment.
#pragma once

#include <catch2/catch.hpp>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bindings/cxx/runtime.hpp"
#include "collectives/transport/connections/handshake_table.hpp"
#include "elastic/membership_rules.hpp"

namespace farandole {

inline const std::string secret = "a secret that only this test knows";

/// A job of `size` members. run() starts them, each on its own thread, and calls `action` there.
class job {
public:
  explicit job(std::int32_t size, std::map<std::string, std::string> extra = {})
      : job(membership_rules{.size = size}, std::move(extra)) {}
  explicit job(const membership_rules& rules, std::map<std::string, std::string> extra = {},
               const handshake_limits& handshakes = {});
  ~job();

  /// The messages of a host driver to the rendezvous.
  void started(std::int32_t slot) const;
  void exited(std::int32_t slot, const std::string& manner) const;
  void retired(std::int32_t slot) const;

  options options_of(std::int32_t rank) const {
    options run_options;
    run_options.read_environment = false;
    run_options.secret = secret;
    run_options.settings = extra_;
    run_options.settings["HOROVOD_RANK"] = std::to_string(rank);
    run_options.settings["HOROVOD_SIZE"] = std::to_string(size_);
    run_options.settings["HOROVOD_GLOO_RENDEZVOUS_ADDR"] = "127.0.0.1";
    run_options.settings["HOROVOD_GLOO_RENDEZVOUS_PORT"] = std::to_string(port_);
    return run_options;
  }

  std::uint16_t port() const { return port_; }

  template <class Action>
  void run(Action action, const std::vector<std::vector<std::int32_t>>& sets = {}) {
    CHECK(start_problems(action, sets) == std::vector<std::string>(static_cast<std::size_t>(size_)));
  }

  /// As run(), but may be called from any thread, because it checks nothing. Returns the errors of the members that
  /// did not start, by rank; empty texts for those that did.
  template <class Action>
  std::vector<std::string> start_problems(Action action,
                                          const std::vector<std::vector<std::int32_t>>& sets = {}) {
    std::vector<std::thread> threads;
    std::vector<std::string> problems(static_cast<std::size_t>(size_));
    for (std::int32_t rank = 0; rank < size_; ++rank)
      threads.emplace_back([&, rank] {
        auto options = options_of(rank);
        options.process_sets = sets;
        auto member = runtime::start(options);
        if (!member) {
          problems[static_cast<std::size_t>(rank)] = member.error().text;
          return;
        }
        action(**member);
      });
    for (auto& thread : threads)
      thread.join();
    return problems;
  }

private:
  std::int32_t size_;
  std::map<std::string, std::string> extra_;
  struct service;
  std::unique_ptr<service> service_;
  std::uint16_t port_ = 0;
};

struct floats {
  std::vector<float> in, values;
  submission ask(std::string_view name, reduce_op op = reduce_op::sum) {
    values.resize(in.size());
    submission request;
    request.name = name;
    request.signature.reduce_op = op;
    request.signature.shape = {static_cast<std::int64_t>(in.size())};
    request.input = reinterpret_cast<const std::byte*>(in.data());
    request.output = reinterpret_cast<std::byte*>(values.data());
    return request;
  }
};

} // namespace farandole
