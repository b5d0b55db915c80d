#include "collectives/transport/shm/fd_passing.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <future>

#include "collectives/transport/paths_testing.hpp"
#include "collectives/transport/shm/fd_passing_packets.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

fd_passing_terms some_terms() {
  return {"a secret of thirty-two bytes ….", 4, 1};
}

/// Connects to an offer as a peer that does not follow the protocol.
descriptor connect_to(const std::string& name) {
  descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  REQUIRE(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
  return socket;
}

struct offering {
  std::unique_ptr<segment_offer> offer = std::move(*segment_offer::open());
  descriptor memory{memfd_create("something", MFD_CLOEXEC)};
  abort_token abort;
  deadline_and_abort deadline{abort, far(), "start timeout (X) = 240 s"};

  std::future<error> serve(std::uint32_t members, fd_passing_terms terms = some_terms()) {
    return std::async(std::launch::async, [this, members, terms] {
      return offer->serve(terms, memory.get(), members, deadline, {.hello = 10min, .handshake = 10min});
    });
  }
  bool is_same(const descriptor& other) const {
    struct stat a {
    }, b{};
    return fstat(memory.get(), &a) == 0 && fstat(other.get(), &b) == 0 && a.st_ino == b.st_ino;
  }
};

} // namespace

TEST_CASE("every member with the secret gets the descriptor, which is closed on exec") {
  offering offer;
  auto served = offer.serve(4);
  std::vector<std::future<bool>> takers;
  for (std::uint32_t member = 1; member < 4; ++member)
    takers.push_back(std::async(std::launch::async, [&offer, member] {
      auto taken = take_segment(offer.offer->name(), some_terms(), member, offer.deadline);
      return taken && offer.is_same(*taken) && (fcntl(taken->get(), F_GETFD) & FD_CLOEXEC) != 0;
    }));
  for (auto& taker : takers)
    CHECK(taker.get());
  CHECK_FALSE(served.get());
}

TEST_CASE("a peer with other terms is refused, and the offer continues to serve members") {
  offering offer;
  auto served = offer.serve(2);
  auto wrong = some_terms();
  SECTION("another secret") {
    wrong.secret.back() ^= 1;
  }
  SECTION("no secret") {
    wrong.secret.clear();
  }
  SECTION("another generation") {
    ++wrong.generation;
  }
  SECTION("another set") {
    ++wrong.set;
  }
  const auto refused = take_segment(offer.offer->name(), wrong, 1, offer.deadline);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == error_kind::precondition);
  CHECK(take_segment(offer.offer->name(), some_terms(), 1, offer.deadline));
  CHECK_FALSE(served.get());
}

TEST_CASE("peers that send garbage, stay silent or hang up do not keep a member from its descriptor") {
  offering offer;
  auto silent = connect_to(offer.offer->name());
  auto served = offer.serve(2);
  const std::string nonsense(1000, 'x');
  for (std::size_t length : {0u, 1u, 36u, 64u, 1000u}) {
    auto stranger = connect_to(offer.offer->name());
    REQUIRE(send(stranger.get(), nonsense.data(), length, MSG_NOSIGNAL) >= 0);
    char answer[256];
    // 36 bytes have the form of a question, but ask for a member that does not exist.
    CHECK(recv(stranger.get(), answer, sizeof answer, 0) <= 0);
  }
  // A well-formed question is answered by a challenge; a wrong proof ends the connection.
  auto guesser = connect_to(offer.offer->name());
  char question[36] = {1};
  REQUIRE(send(guesser.get(), question, sizeof question, MSG_NOSIGNAL) == sizeof question);
  char challenge[256];
  CHECK(recv(guesser.get(), challenge, sizeof challenge, 0) == 64);
  // The offer's own proof, sent back, does not count as the peer's proof.
  REQUIRE(send(guesser.get(), challenge + 32, 32, MSG_NOSIGNAL) == 32);
  CHECK(recv(guesser.get(), challenge, sizeof challenge, 0) <= 0);

  auto hung_up = connect_to(offer.offer->name());
  hung_up.close();
  CHECK(take_segment(offer.offer->name(), some_terms(), 1, offer.deadline));
  CHECK_FALSE(served.get());
}

TEST_CASE("a member that asks twice gets the descriptor twice, and the other members are still served") {
  offering offer;
  auto served = offer.serve(3);
  CHECK(take_segment(offer.offer->name(), some_terms(), 2, offer.deadline));
  CHECK(take_segment(offer.offer->name(), some_terms(), 2, offer.deadline));
  CHECK(take_segment(offer.offer->name(), some_terms(), 1, offer.deadline));
  CHECK_FALSE(served.get());
}

TEST_CASE("both sides give up on an abort, and at the deadline with an error that names its setting") {
  offering offer;
  SECTION("abort") {
    auto served = offer.serve(2);
    auto taken = std::async(std::launch::async, [&] {
      return take_segment("farandole-nobody-offers-this", some_terms(), 1, offer.deadline).error();
    });
    offer.abort.raise();
    CHECK(served.get().kind == error_kind::disconnected);
    CHECK(taken.get().kind == error_kind::disconnected);
  }
  SECTION("deadline") {
    offer.deadline.deadline = steady_clock::now() + std::chrono::milliseconds(5);
    const auto served = offer.serve(2).get();
    CHECK(served.kind == error_kind::timed_out);
    CHECK_THAT(served.text, Catch::Contains("start timeout (X) = 240 s"));
    CHECK(take_segment("farandole-nobody-offers-this", some_terms(), 1, offer.deadline).error().kind ==
          error_kind::timed_out);
  }
}

TEST_CASE("an offer accepts a question before it is served, and its name is random") {
  offering offer;
  offering other;
  CHECK(offer.offer->name().size() == std::string("farandole-").size() + 32);
  CHECK(offer.offer->name() != other.offer->name());
  auto taken = std::async(std::launch::async, [&] {
    return bool(take_segment(offer.offer->name(), some_terms(), 1, offer.deadline));
  });
  CHECK_FALSE(offer.serve(2).get());
  CHECK(taken.get());
}

TEST_CASE("many silent connections do not keep a member out") {
  offering offer;
  std::vector<descriptor> crowd;
  for (int count = 0; count < 300; ++count)
    crowd.push_back(connect_to(offer.offer->name()));
  auto served = offer.serve(2);
  CHECK(take_segment(offer.offer->name(), some_terms(), 1, offer.deadline));
  CHECK_FALSE(served.get());
}

namespace {

/// Sends a packet with `bytes` bytes and `descriptors` descriptors.
void send_packet(int socket, std::size_t bytes, std::size_t descriptors, int number) {
  const std::vector<char> text(bytes);
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) char space[CMSG_SPACE(16 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
  cmsghdr* control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
  for (std::size_t i = 0; i < descriptors; ++i)
    std::memcpy(CMSG_DATA(control) + i * sizeof number, &number, sizeof number);
  REQUIRE(sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes));
}

/// The lowest free descriptor number.
int lowest_free_descriptor() {
  return descriptor(dup(STDERR_FILENO)).get();
}

} // namespace

TEST_CASE("only a single descriptor with a single byte is accepted, and refused descriptors are closed") {
  int sockets[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
  const descriptor ours(sockets[0]), theirs(sockets[1]);
  const int free_before = lowest_free_descriptor();
  for (const auto& [bytes, descriptors] :
       {std::pair<std::size_t, std::size_t>{1, 2}, {1, 9}, {1, 16}, {0, 1}, {2, 1}}) {
    INFO(bytes << " bytes, " << descriptors << " descriptors");
    send_packet(theirs.get(), bytes, descriptors, STDERR_FILENO);
    CHECK_FALSE(receive_descriptor(ours.get()));
    CHECK(lowest_free_descriptor() == free_before);
  }
  send_packet(theirs.get(), 1, 1, STDERR_FILENO);
  CHECK(receive_descriptor(ours.get()).get() == free_before);
}
