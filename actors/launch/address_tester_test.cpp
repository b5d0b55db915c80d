// Tests of addresses by real links on the loopback interface. 127.0.0.2 stands for another address of a host.
#include "actors/launch/address_tester.hpp"

#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "actors/event_loop/loop.hpp"
#include "messages/values/descriptor.hpp"
#include "tests/patience.hpp"

using namespace farandole;
using farandole::testing::patience;
using farandole::testing::patience_ms;

namespace {

constexpr std::uint32_t timeout_ms = patience_ms / 2;

/// A host, whose reports the test waits for.
struct host_side {
  std::mutex mutex;
  std::condition_variable changed;
  address_report reported;
  loop_system system;
  address_tester_actor tester;

  explicit host_side(const std::string& secret = "a secret of a test") {
    address_tester_spec spec;
    spec.links.credentials = std::make_shared<const tls_credentials>(secret);
    spec.report = [this](const address_report& report) {
      std::lock_guard lock(mutex);
      reported.listening.insert(reported.listening.end(), report.listening.begin(), report.listening.end());
      reported.dialled.insert(reported.dialled.end(), report.dialled.begin(), report.dialled.end());
      changed.notify_all();
    };
    tester = system.get().spawn(address_tester, spec);
  }
  ~host_side() { caf::anon_send(tester, close_atom::value); }

  void test(std::vector<std::string> listen, std::vector<tested_address> dial) {
    caf::anon_send(tester, address_test{std::move(listen), std::move(dial), timeout_ms});
  }
  tested_address result(std::vector<tested_address> address_report::*list, const std::string& address) {
    std::unique_lock lock(mutex);
    tested_address found;
    REQUIRE(changed.wait_for(lock, patience, [&] {
      for (const auto& entry : reported.*list)
        if (entry.address == address) {
          found = entry;
          return true;
        }
      return false;
    }));
    return found;
  }
  tested_address listening(const std::string& address) { return result(&address_report::listening, address); }
  tested_address dialled(const std::string& address) { return result(&address_report::dialled, address); }
};

descriptor connected_to(const tested_address& address) {
  descriptor peer{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port);
  ::inet_pton(AF_INET, address.address.c_str(), &to.sin_addr);
  const timeval longest{std::chrono::seconds(patience).count(), 0};
  ::setsockopt(peer.get(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
  return ::connect(peer.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 ? std::move(peer)
                                                                                       : descriptor();
}

/// Whether the other end closes the connection, and how many bytes it has sent before.
std::optional<std::size_t> bytes_until_closed(const descriptor& peer) {
  std::size_t count = 0;
  char buffer[4096];
  for (;;) {
    const auto got = ::recv(peer.get(), buffer, sizeof buffer, 0);
    if (got > 0)
      count += static_cast<std::size_t>(got);
    else
      return got == 0 || errno == ECONNRESET ? std::optional(count) : std::nullopt;
  }
}

} // namespace

TEST_CASE("a host reports the ports of its addresses, and which addresses of another host it reaches",
          "[address tester]") {
  host_side b, c;
  c.test({"127.0.0.1", "127.0.0.2", "192.0.2.1"}, {});
  const auto first = c.listening("127.0.0.1"), second = c.listening("127.0.0.2");
  CHECK(first.port != 0);
  CHECK(second.port != 0);
  CHECK_FALSE(c.listening("192.0.2.1").problem.empty()); // no address of this machine
  b.test({}, {first, second, {"127.0.0.3", first.port}});
  CHECK(b.dialled("127.0.0.1").problem.empty());
  CHECK(b.dialled("127.0.0.2").problem.empty());
  CHECK_THAT(b.dialled("127.0.0.3").problem, Catch::Contains("Connection refused"));
}

TEST_CASE("an address counts as reached only if the process there has the job's secret", "[address tester]") {
  host_side b, other("a secret of another job");
  other.test({"127.0.0.1"}, {});
  b.test({}, {other.listening("127.0.0.1")});
  CHECK_FALSE(b.dialled("127.0.0.1").problem.empty());
}

TEST_CASE("a peer without the secret is closed, learns nothing, and does not disturb the test",
          "[address tester]") {
  host_side b, c;
  c.test({"127.0.0.1"}, {});
  const auto address = c.listening("127.0.0.1");
  const auto silent = connected_to(address);
  const auto garbage = connected_to(address);
  REQUIRE(silent);
  REQUIRE(garbage);
  const std::string text = "GET / HTTP/1.1\r\nHost: c\r\n\r\n" + std::string(1000, 'x');
  REQUIRE(::send(garbage.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
  b.test({}, {address});
  CHECK(b.dialled("127.0.0.1").problem.empty());
  CHECK(bytes_until_closed(silent) == 0);
  const auto answer = bytes_until_closed(garbage);
  REQUIRE(answer);
  CHECK(*answer < 16); // at most an alert of TLS
}

TEST_CASE("addresses that a later request does not name are closed, and the others are kept",
          "[address tester]") {
  host_side b, c;
  c.test({"127.0.0.1", "127.0.0.2"}, {});
  const auto kept = c.listening("127.0.0.1"), closed = c.listening("127.0.0.2");
  c.test({"127.0.0.1", "127.0.0.3"}, {});
  REQUIRE(c.listening("127.0.0.3").port != 0);
  b.test({}, {kept});
  CHECK(b.dialled("127.0.0.1").problem.empty());
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (connected_to(closed) && std::chrono::steady_clock::now() < deadline)
    ; // the listener ends by a message of its own
  CHECK_FALSE(connected_to(closed));
}
