// For tests of whole jobs in one process: a rendezvous and several runtimes, each with a loop, a lane and a
// window of its own.
#pragma once

#include <catch2/catch.hpp>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "actors/interfaces/atoms.hpp"
#include "actors/interfaces/rendezvous.hpp"
#include "actors/kit/loop.hpp"
#include "actors/rendezvous.hpp"
#include "bindings/cxx/farandole.hpp"

namespace farandole {

inline const std::string secret = "a secret that only this test knows";

/// A job of `size` members: start() brings them up, each on a thread of its own, and `each` runs there.
class job {
public:
  explicit job(std::int32_t size, std::map<std::string, std::string> extra = {})
      : job(membership_rules{.size = size}, std::move(extra)) {}
  explicit job(membership_rules rules, std::map<std::string, std::string> extra = {},
               const handshake_limits& handshakes = {})
      : size_(rules.size), extra_(std::move(extra)) {
    rendezvous_options how;
    how.members = rules;
    how.links.credentials = std::make_shared<const tls_credentials>(secret);
    how.links.handshakes = handshakes;
    auto service = start_rendezvous(system_.get(), how);
    REQUIRE(service);
    actor_ = service->actor;
    port_ = service->port;
  }
  ~job() { caf::anon_send(actor_, close_atom::value); }

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

  const rendezvous_actor& rendezvous() const { return actor_; }
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
  loop_system system_;
  rendezvous_actor actor_;
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
