// Bundles that go past the window: what comes out, and members that stop, give up or die in every phase. Who
// gives its memory back is not believed any more, and nobody touches what was given back.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <future>

#include "collectives/paths/local/local.hpp"
#include "collectives/paths/paths_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

constexpr waiting patient{waiting::look::giving_way, std::chrono::microseconds(5), yield_ledger(true)};
constexpr std::size_t always = 1;

window_layout layout_of(std::uint32_t members) {
  window_layout layout;
  layout.members = members;
  layout.chunk_bytes = 4096;
  layout.slots = 3;
  return layout;
}

/// Byte `at` of what `from` has for `to` in a part.
std::byte content(std::uint32_t from, std::uint32_t to, std::size_t part, std::size_t at) {
  return std::byte((from * 41 + to * 17 + part * 5 + at) % 251);
}

/// How many bytes that is; some have nothing.
std::size_t length(std::uint32_t from, std::uint32_t to, std::size_t part, std::size_t scale) {
  return (from + 2 * to + part) % 4 * scale;
}

/// One member's side of an alltoall of two parts, and what must come out.
struct load {
  static constexpr std::size_t parts = 2;
  bytes inputs[parts], outputs[parts], wanted[parts];
  work bundle;

  load(std::uint32_t rank, std::uint32_t members, std::size_t scale) {
    bundle.operation = operation::alltoall;
    bundle.dtype = dtype::uint8;
    bundle.longest = 3 * scale;
    for (std::size_t part = 0; part < parts; ++part) {
      for (std::uint32_t other = 0; other < members; ++other) {
        bundle.sent.push_back(append(inputs[part], rank, other, part, scale));
        bundle.received.push_back(append(wanted[part], other, rank, part, scale));
      }
      outputs[part].resize(wanted[part].size(), std::byte{0xee});
      bundle.parts.push_back({inputs[part].data(), outputs[part].data(), inputs[part].size(), {}});
    }
  }

  static std::size_t append(bytes& to, std::uint32_t from, std::uint32_t target, std::size_t part,
                            std::size_t scale) {
    const std::size_t size = length(from, target, part, scale);
    for (std::size_t at = 0; at < size; ++at)
      to.push_back(content(from, target, part, at));
    return size;
  }
  bool right() const {
    return std::equal(std::begin(outputs), std::end(outputs), std::begin(wanted), std::end(wanted));
  }
};

struct host {
  std::vector<std::shared_ptr<window>> windows;
  std::vector<std::unique_ptr<local_path>> paths;
  abort_token abort;
  std::vector<std::uint64_t> lent; ///< by member: steps in which it has lent

  host(std::uint32_t members, std::size_t least) : windows(make_windows(layout_of(members))), lent(members) {
    for (std::uint32_t rank = 0; rank < members; ++rank)
      paths.push_back(std::make_unique<local_path>(
          windows[rank], rank, patient, least,
          [this, rank](local_phase at, std::uint64_t) { lent[rank] += at == local_phase::lend ? 1 : 0; }));
  }
  void run(std::vector<std::unique_ptr<load>>& loads) {
    std::vector<error> errors(loads.size());
    together(static_cast<std::uint32_t>(loads.size()), [&](std::uint32_t rank) {
      errors[rank] = paths[rank]->run(loads[rank]->bundle, {abort, far(), "test deadline"}).error;
    });
    for (const auto& one : errors)
      REQUIRE(one.text == "");
  }
};

std::vector<std::unique_ptr<load>> loads_of(std::uint32_t members, std::size_t scale) {
  std::vector<std::unique_ptr<load>> loads;
  for (std::uint32_t rank = 0; rank < members; ++rank)
    loads.push_back(std::make_unique<load>(rank, members, scale));
  return loads;
}

} // namespace

TEST_CASE("every member gets what is meant for it, past the window or through it") {
  const auto members = GENERATE(1u, 2u, 3u, 4u);
  const auto least = GENERATE(std::size_t{0}, always, std::size_t{3000});
  host here(members, least);
  for (const std::size_t scale : {std::size_t{1}, std::size_t{700}, std::size_t{50'000}}) {
    auto loads = loads_of(members, scale);
    here.run(loads);
    for (const auto& one : loads)
      REQUIRE(one->right());
  }
  if (least == 0 || members == 1)
    CHECK(here.lent == std::vector<std::uint64_t>(members, 0));
  if (least == always && members == 4)
    CHECK(here.lent == std::vector<std::uint64_t>(members, 3));
}

TEST_CASE(
    "when one member has memory that cannot be lent, all take the window, and the next bundle is lent") {
#ifdef SYS_memfd_secret
  const descriptor secret(static_cast<int>(syscall(SYS_memfd_secret, FD_CLOEXEC)));
  constexpr std::size_t room = 64 << 10;
  if (!secret || ftruncate(secret.get(), room) != 0)
    return; // not offered here
  auto* const memory =
      static_cast<std::byte*>(mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_SHARED, secret.get(), 0));
  if (memory == MAP_FAILED)
    return;
  host here(3, always);
  auto loads = loads_of(3, 3000);
  auto& odd = *loads[2];
  std::copy(odd.inputs[1].begin(), odd.inputs[1].end(), memory);
  odd.bundle.parts[1].input = memory;
  CHECK_FALSE(can_be_lent({memory, odd.inputs[1].size()}));
  here.run(loads);
  for (const auto& one : loads)
    CHECK(one->right());
  auto more = loads_of(3, 3000);
  here.run(more);
  for (const auto& one : more)
    CHECK(one->right());
  munmap(memory, room);
#endif
}

TEST_CASE("when a member stops in any phase of a loan, an abort frees the others and no buffer changes "
          "afterwards") {
  const auto phase = GENERATE(local_phase::pack, local_phase::unpack, local_phase::lend);
  const auto stopped_rank = GENERATE(0u, 1u);
  const auto stopped_step = GENERATE(0u, 1u, 2u); // two to meet, one to lend
  constexpr std::uint32_t members = 3;

  auto windows = make_windows(layout_of(members));
  abort_token abort;
  std::promise<void> stopped, go_on;
  bool stops = false;
  auto loads = loads_of(members, 10'000);
  std::vector<std::unique_ptr<local_path>> paths;
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    local_path::probe probe;
    if (rank == stopped_rank)
      probe = [&](local_phase at, std::uint64_t step) {
        if (at != phase || step != stopped_step)
          return;
        stops = true;
        stopped.set_value();
        go_on.get_future().wait();
      };
    paths.push_back(std::make_unique<local_path>(windows[rank], rank, patient, always, probe));
  }
  std::vector<std::future<error>> ends;
  for (std::uint32_t rank = 0; rank < members; ++rank)
    ends.push_back(std::async(std::launch::async, [&, rank] {
      const auto end = paths[rank]->run(loads[rank]->bundle, {abort, far(), "test deadline"}).error;
      if (rank == stopped_rank && !stops)
        stopped.set_value();
      return end;
    }));
  stopped.get_future().wait();
  abort.raise();
  std::vector<bytes> snapshots(members);
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    if (rank == stopped_rank)
      continue;
    const auto end = ends[rank].get();
    CHECK((end.kind == error_kind::disconnected || end.kind == error_kind::none));
    snapshots[rank] = loads[rank]->outputs[0];
    // Its memory is its caller's again, for any use.
    for (auto& input : loads[rank]->inputs)
      std::fill(input.begin(), input.end(), std::byte{0});
  }
  go_on.set_value();
  const auto end = ends[stopped_rank].get();
  CHECK((end.kind == error_kind::disconnected ||
         (end.kind == error_kind::none && loads[stopped_rank]->right())));
  for (std::uint32_t rank = 0; rank < members; ++rank)
    if (rank != stopped_rank)
      CHECK(loads[rank]->outputs[0] == snapshots[rank]);
}

TEST_CASE("a reader that was held up does not believe what a member has given back since") {
  auto windows = make_windows(layout_of(2));
  abort_token none;
  std::promise<void> held, go_on;
  auto loads = loads_of(2, 10'000);
  local_path lends(windows[0], 0, patient, always);
  local_path reads(windows[1], 1, patient, always, [&](local_phase at, std::uint64_t step) {
    if (at != local_phase::unpack || step != 2)
      return;
    held.set_value();
    go_on.get_future().wait();
  });
  auto reader = std::async(std::launch::async, [&] {
    return reads.run(loads[1]->bundle, {none, far(), "test deadline"}).error;
  });
  abort_token given_up;
  auto giver = std::async(std::launch::async, [&] {
    return lends.run(loads[0]->bundle, {given_up, far(), "test deadline"}).error;
  });
  held.get_future().wait();
  given_up.raise();
  CHECK(giver.get().kind == error_kind::disconnected);
  for (auto& input : loads[0]->inputs)
    std::fill(input.begin(), input.end(), std::byte{0});
  go_on.set_value();
  const auto end = reader.get();
  CHECK(end.kind == error_kind::disconnected);
  CHECK(end.text == "alltoall (bundle 0) was given up: the group has changed");
}

TEST_CASE("a deadline that passes while a neighbour still reads names its setting and the neighbour") {
  auto windows = make_windows(layout_of(2));
  abort_token never, abort;
  std::promise<void> go_on;
  auto loads = loads_of(2, 10'000);
  local_path lends(windows[0], 0, patient, always);
  local_path reads(windows[1], 1, patient, always, [&](local_phase at, std::uint64_t step) {
    if (at == local_phase::unpack && step == 2)
      go_on.get_future().wait();
  });
  auto reader = std::async(std::launch::async, [&] {
    return reads.run(loads[1]->bundle, {abort, far(), "test deadline"}).error;
  });
  const auto soon = steady_clock::now() + std::chrono::milliseconds(20);
  const auto end = lends.run(loads[0]->bundle, {never, soon, "operation timeout (X) = 30 s"}).error;
  CHECK(end.kind == error_kind::timed_out);
  CHECK(end.text ==
        "alltoall (bundle 0) waited for local member 1 until the operation timeout (X) = 30 s passed");
  go_on.set_value();
  abort.raise();
  CHECK(reader.get().kind == error_kind::disconnected);
}

TEST_CASE(
    "a process that dies while it lends or reads fails its neighbour by name of the operation, in time") {
  const auto phase = GENERATE(local_phase::pack, local_phase::unpack, local_phase::lend);
  auto made = window::create(layout_of(2));
  std::shared_ptr<window> own = std::move(*made);
  const int shared = own->shared_descriptor();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    auto adopted = window::adopt(descriptor(dup(shared)), layout_of(2));
    if (!adopted)
      _exit(2);
    // Two steps to meet, one to lend, and the second bundle.
    local_path path(std::move(*adopted), 1, patient, always, [&](local_phase at, std::uint64_t step) {
      if (at == phase && step == 3)
        _exit(7);
    });
    abort_token never;
    for (int i = 0; i < 2; ++i) {
      load mine(1, 2, 100'000);
      path.run(mine.bundle, {never, far(), "test deadline"});
    }
    _exit(3); // the kernel does not let processes read each other here
  }
  abort_token abort;
  local_path path(own, 0, patient, always);
  auto end = std::async(std::launch::async, [&] {
    error last;
    for (int i = 0; i < 2 && !last; ++i) {
      load mine(0, 2, 100'000);
      last = path.run(mine.bundle, {abort, far(), "test deadline"}).error;
    }
    return last;
  });
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  abort.raise();
  const auto ended = end.get().kind;
  // Who has read all it wanted may have been in time for its neighbour.
  if (WEXITSTATUS(status) == 7)
    CHECK((ended == error_kind::disconnected || (ended == error_kind::none && phase == local_phase::lend)));
}
