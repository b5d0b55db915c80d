#include "collectives/paths/local/loan.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "collectives/paths/paths_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

std::uint64_t address_of(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

/// A child process with what it made before it told the parent, until the parent lets it go.
template <class Told>
struct other_process {
  pid_t child;
  int word[2], leave[2];
  Told told{};

  template <class Make>
  explicit other_process(const Make& make) {
    REQUIRE(pipe(word) == 0);
    REQUIRE(pipe(leave) == 0);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      close(leave[1]);
      auto made = make();
      const Told mine = made.told();
      char last = 0;
      if (write(word[1], &mine, sizeof mine) != sizeof mine || read(leave[0], &last, 1) != 0)
        _exit(1);
      _exit(0);
    }
    close(leave[0]);
    REQUIRE(read(word[0], &told, sizeof told) == sizeof told);
  }
  void end() {
    if (child < 0)
      return;
    close(leave[1]);
    waitpid(std::exchange(child, -1), nullptr, 0);
  }
  ~other_process() {
    end();
    close(word[0]);
    close(word[1]);
  }
};

struct lent_there {
  lender_card card;
  std::uint64_t data;
};

struct lends_a_page {
  std::unique_ptr<lender> who = std::make_unique<lender>();
  bytes data = bytes(4096, std::byte{7});
  lent_there told() {
    who->lend(5);
    return {who->card(), address_of(data.data())};
  }
};

} // namespace

TEST_CASE("what is lent is copied, and nothing is believed once it is withdrawn") {
  lender owner;
  const borrower reader(owner.card());
  REQUIRE(reader.reaches());
  const bytes data(100'000, std::byte{3});
  bytes copied(data.size());
  owner.lend(9);
  CHECK(reader.copy(address_of(data.data()), copied) == 0);
  CHECK(copied == data);
  CHECK(reader.holds(9));
  CHECK_FALSE(reader.holds(8));
  owner.withdraw();
  CHECK_FALSE(reader.holds(9));
}

TEST_CASE("another process' memory can be read while it lives, and no longer") {
  other_process<lent_there> other([] { return lends_a_page(); });
  const borrower reader(other.told.card);
  if (!reader.holds(5))
    return; // not allowed here: nothing to see
  bytes copied(4096);
  REQUIRE(reader.copy(other.told.data, copied) == 0);
  CHECK(copied == bytes(4096, std::byte{7}));
  other.end();
  CHECK(reader.copy(other.told.data, copied) != 0);
  CHECK_FALSE(reader.holds(5));
}

TEST_CASE("whoever is not the very member is not reached, whatever stands at the same place") {
  lender owner;
  auto card = owner.card();
  SECTION("another nonce") {
    card.nonce[1] ^= 1;
  }
  SECTION("another place") {
    card.beacon += 8;
  }
  SECTION("nothing there") {
    card.beacon = 16;
  }
  SECTION("no such process") {
    card.process = -1;
  }
  CHECK_FALSE(borrower(card).reaches());
}

TEST_CASE("every lender has a nonce of its own, and leaves no valid beacon behind") {
  auto one = std::make_unique<lender>();
  const lender other;
  CHECK(std::memcmp(one->card().nonce, other.card().nonce, sizeof(lender_card::nonce)) != 0);
  one->lend(4);
  const borrower reader(one->card());
  REQUIRE(reader.holds(4));
  one.reset();
  CHECK_FALSE(reader.holds(4));
}

TEST_CASE("memory that is not there is neither copied nor lent") {
  auto* const memory = static_cast<std::byte*>(
      mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(memory != MAP_FAILED);
  REQUIRE(munmap(memory + 2 * 4096, 4096) == 0);
  CHECK(can_be_lent({memory, 2 * 4096}));
  CHECK(can_be_lent({}));
  CHECK_FALSE(can_be_lent({memory, 3 * 4096}));
  CHECK_FALSE(can_be_lent({memory + 2 * 4096, 4096}));
  lender owner;
  const borrower reader(owner.card());
  bytes copied(3 * 4096);
  CHECK(reader.copy(address_of(memory), copied) == EFAULT);
  munmap(memory, 2 * 4096);
}
