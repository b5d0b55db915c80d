// For tests of whole jobs in one process: a rendezvous and several runtimes, each with a loop, a lane and a
// window of its own.
#pragma once

#include <catch2/catch.hpp>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bindings/cxx/farandole.hpp"
#include "collectives/paths/connections/handshake_table.hpp"
#include "elastic/membership_rules.hpp"

namespace farandole {

inline const std::string secret = "a secret that only this test knows";

/// A job of `size` members: start() brings them up, each on a thread of its own, and `each` runs there.
class job {
public:
  explicit job(std::int32_t size, std::map<std::string, std::string> extra = {})
      : job(membership_rules{.size = size}, std::move(extra)) {}
  explicit job(const membership_rules& rules, std::map<std::string, std::string> extra = {},
               const handshake_limits& handshakes = {});
  ~job();

  /// What a host driver tells the rendezvous.
  void started(std::int32_t slot) const;
  void exited(std::int32_t slot, const std::string& how) const;
  void retired(std::int32_t slot) const;

  options options_of(std::int32_t rank) const {
    options how;
    how.read_environment = false;
    how.secret = secret;
    how.settings = extra_;
    how.settings["HOROVOD_RANK"] = std::to_string(rank);
    how.settings["HOROVOD_SIZE"] = std::to_string(size_);
    how.settings["HOROVOD_GLOO_RENDEZVOUS_ADDR"] = "127.0.0.1";
    how.settings["HOROVOD_GLOO_RENDEZVOUS_PORT"] = std::to_string(port_);
    return how;
  }

  std::uint16_t port() const { return port_; }

  template <class Each>
  void run(Each each, const std::vector<std::vector<std::int32_t>>& sets = {}) {
    CHECK(start_problems(each, sets) == std::vector<std::string>(static_cast<std::size_t>(size_)));
  }

  /// As run(), but for any thread, where nothing may be checked: why members did not start, by rank; empty
  /// where they did.
  template <class Each>
  std::vector<std::string> start_problems(Each each,
                                          const std::vector<std::vector<std::int32_t>>& sets = {}) {
    std::vector<std::thread> threads;
    std::vector<std::string> problems(static_cast<std::size_t>(size_));
    for (std::int32_t rank = 0; rank < size_; ++rank)
      threads.emplace_back([&, rank] {
        auto how = options_of(rank);
        how.process_sets = sets;
        auto member = runtime::start(how);
        if (!member) {
          problems[static_cast<std::size_t>(rank)] = member.error().text;
          return;
        }
        each(**member);
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
  std::vector<float> in, out;
  submission ask(std::string_view name, reduce_op op = reduce_op::sum) {
    out.resize(in.size());
    submission what;
    what.name = name;
    what.signature.reduce_op = op;
    what.signature.shape = {static_cast<std::int64_t>(in.size())};
    what.input = reinterpret_cast<const std::byte*>(in.data());
    what.output = reinterpret_cast<std::byte*>(out.data());
    return what;
  }
};

} // namespace farandole
