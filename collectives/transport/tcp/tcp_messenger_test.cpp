// The messenger of one member; the test plays the other members.
#include "collectives/transport/tcp/tcp_messenger.hpp"

#include <sys/socket.h>

#include <catch2/catch.hpp>

#include <functional>
#include <future>

#include "collectives/transport/connections/sockets.hpp"
#include "collectives/transport/paths_testing.hpp"
#include "collectives/transport/tcp/tcp_address.hpp"
#include "tests/patience.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view job_secret = "the job's secret";

tcp_options options_of_job() {
  tcp_options options;
  options.secret = job_secret;
  options.generation = 7;
  options.global_ranks = {10, 11};
  return options;
}

std::unique_ptr<tcp_messenger> opened(const tcp_options& options = options_of_job()) {
  auto messenger = tcp_messenger::open(options);
  REQUIRE(messenger);
  return std::move(*messenger);
}

descriptor connected_to(const std::string& address) {
  const auto parsed = tcp_address::parse(address);
  auto socket = start_connecting(parsed->ip, parsed->port);
  REQUIRE(socket);
  pollfd writable{socket->get(), POLLOUT, 0};
  REQUIRE(::poll(&writable, 1, 60'000) == 1);
  return std::move(*socket);
}

/// Connects to rank 0 as rank 1, and returns the authenticated socket.
met_peer meet_as_rank_1(const std::string& address) {
  tcp_meeting meeting{{},
                      std::make_shared<const tls_credentials>(job_secret, data_purpose),
                      {7, 0, 0, 2, 1},
                      chunk_suite::aes_128_gcm};
  REQUIRE_FALSE(meeting.call(std::vector<std::string>{address, "127.0.0.1:0"}, tcp_meeting::clock::now()));
  while (!meeting.complete()) {
    std::vector<pollfd> polls;
    meeting.watch(polls);
    ::poll(polls.data(), polls.size(), 1000);
    meeting.step(polls, tcp_meeting::clock::now());
  }
  auto met = meeting.take_met();
  return std::move(met.front());
}

const abort_token no_abort;

deadline_and_abort within(std::chrono::milliseconds patience) {
  return {no_abort, steady_clock::now() + patience, "start timeout (X) = 240 s"};
}

/// The error of the first attempt that contains `part`. Each attempt may take twice as long as the one before, because
/// a busy machine may do nothing in a short time. The error of the last attempt, if none contains it.
error error_with(const std::string& part, const std::function<error(const deadline_and_abort&)>& attempt) {
  for (auto patience = 100ms;; patience *= 2)
    if (const error problem = attempt(within(patience));
        problem.text.find(part) != std::string::npos || patience > 10s)
      return problem;
}

} // namespace

TEST_CASE("messenger: the error for a member that never connects names it and all known causes") {
  std::vector<std::string> news;
  auto options = options_of_job();
  options.meeting_news = [&](const std::string& missing) { news.push_back(missing); };
  std::unique_ptr<tcp_messenger> first;
  const error problem = error_with("not a TLS record", [&](const deadline_and_abort& deadline) {
    news.clear();
    first = opened(options);
    const descriptor stranger = connected_to(first->address());
    REQUIRE(::send(stranger.get(), "nonsense", 8, MSG_NOSIGNAL) == 8);
    return first->connect(std::vector<std::string>{first->address(), ""}, 0, deadline);
  });
  CHECK(problem.kind == error_kind::timed_out);
  CHECK_THAT(problem.text, Catch::Contains("it has not met rank 11: it has not called") &&
                               Catch::Contains("refused 1 connections at its listener " + options.ip) &&
                               Catch::Contains("not a TLS record"));
  CHECK(first->remark() != "");
  REQUIRE(news.size() >= 2);
  CHECK_THAT(news[news.size() - 2],
             Catch::Contains("it has not called") && Catch::Contains("not a TLS record"));
  CHECK(news.back() == "");
}

TEST_CASE("messenger: the error for a called member that does not answer names its address") {
  auto silent = open_listener("127.0.0.1", 0);
  REQUIRE(silent);
  const std::string address = tcp_address{"127.0.0.1", port_of(*silent)}.text();
  const error problem = error_with("said nothing", [&](const deadline_and_abort& deadline) {
    auto second = opened();
    return second->connect(std::vector<std::string>{address, second->address()}, 1, deadline);
  });
  CHECK(problem.kind == error_kind::timed_out);
  CHECK_THAT(problem.text, Catch::Contains("it has not met rank 10: called at " + address +
                                           ", it accepted the connection and said nothing"));
}

TEST_CASE("messenger: the highest rank opens no listener, since no member calls it") {
  auto options = options_of_job();
  options.listens = false;
  auto first = opened(), highest = opened(options);
  CHECK(highest->address() == "127.0.0.1:0");
  const std::vector<std::string> addresses{first->address(), highest->address()};
  auto met = std::async(std::launch::async, [&] { return highest->connect(addresses, 1, within(patience)); });
  CHECK_FALSE(first->connect(addresses, 0, within(patience)));
  CHECK_FALSE(met.get());
  std::int32_t sent = 4711, received = 0;
  message_ticket sends, receives;
  highest->send(0, message_phase::exchange, std::as_bytes(std::span{&sent, 1}), sends);
  CHECK_FALSE(highest->flush(within(patience)));
  first->receive(1, message_phase::exchange, std::as_writable_bytes(std::span{&received, 1}), receives);
  CHECK_FALSE(first->wait(receives, within(patience)));
  CHECK(received == 4711);
}

TEST_CASE("messenger: a flush fails if the connection breaks before all bytes are sent") {
  auto first = opened();
  auto peer = std::async(std::launch::async, [&] { return meet_as_rank_1(first->address()); });
  CHECK_FALSE(first->connect(std::vector<std::string>{first->address(), "127.0.0.1:0"}, 0, within(patience)));
  met_peer second = peer.get();
  const bytes message(std::size_t{64} << 20);
  message_ticket sends;
  first->send(1, message_phase::exchange, message, sends);
  second.socket.close();
  const error problem = first->flush(within(patience));
  CHECK(problem.kind == error_kind::disconnected);
  CHECK_THAT(problem.text, Catch::Contains("rank 11 is lost to the tcp path"));
}
