// Processes without the job's secret at the listeners of a running job.
#include <catch2/catch.hpp>

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <thread>

#include "bindings/cxx/elastic_testing.hpp"
#include "collectives/transport/connections/sockets.hpp"

using namespace farandole;

namespace {

/// Connects repeatedly without sending anything, and keeps the last 400 connections open, until its destructor runs.
class silent_crowd {
public:
  silent_crowd(std::uint16_t port, std::size_t first) : port_(port) {
    while (connected_ < first)
      connect();
    thread_ = std::thread([this] {
      while (!ended_)
        connect();
    });
  }
  ~silent_crowd() {
    ended_ = true;
    thread_.join();
  }
  std::size_t connected() const { return connected_; }

private:
  void connect() {
    auto& replaced = sockets_[connected_ % sockets_.size()];
    auto socket = start_connecting("127.0.0.1", port_);
    if (!socket)
      return;
    pollfd descriptor{socket->get(), POLLOUT, 0};
    ::poll(&descriptor, 1, 1000);
    replaced = std::move(*socket);
    ++connected_;
  }

  std::uint16_t port_;
  std::array<descriptor, 400> sockets_;
  std::atomic<std::size_t> connected_ = 0;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

} // namespace

TEST_CASE("thousands of silent strangers keep no member out of the next generation", "[strangers]") {
  handshake_limits limits;
  limits.hello = std::chrono::minutes{10}; // the rendezvous must close them because of their number alone
  const started_job job(2, 2, limits);
  auto members = job.together({0, 1});
  const silent_crowd strangers(job.port(), 4096);
  for (std::uint64_t generation = 2; generation <= 4; ++generation) {
    members.clear();
    members = job.together({0, 1});
    CHECK(members[0]->generation() == generation);
    CHECK(counted(members) == 2.0F);
  }
  CHECK(strangers.connected() >= 4096);
}
