// A member stops in the middle of an operation, in every phase of every operation on the local path. The
// other members give up on an abort, and no buffer changes after its operation has returned.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <atomic>
#include <future>
#include <thread>
#include <utility>

#include "collectives/transport/paths_testing.hpp"
#include "collectives/transport/shm/shm_path.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

constexpr futex_wait long_wait{futex_wait::polling::yielding, std::chrono::microseconds(5),
                               yield_policy(true)};
constexpr std::uint32_t members = 3;

segment_layout small_layout() {
  segment_layout layout;
  layout.members = members;
  layout.chunk_bytes = 4096;
  layout.slots = 3;
  return layout;
}

/// One member's tensor for the operation, and the work over it.
struct load {
  bytes input;
  bytes output;
  work bundle;

  load(operation kind, std::size_t size, std::uint32_t rank)
      : input(size, std::byte(rank + 1)), output(size) {
    bundle.operation = kind;
    bundle.dtype = dtype::uint8;
    bundle.root = 0;
    if (kind == operation::barrier)
      return;
    if (kind == operation::allgather) {
      bundle.gathered.assign(members, size);
      output.resize(size * members);
    }
    bundle.parts.push_back({input.data(), output.data(), size, {}});
  }
};

} // namespace

TEST_CASE("local: if a member stops in any phase, an abort ends the others and no buffer changes later") {
  const auto kind =
      GENERATE(operation::allreduce, operation::allgather, operation::broadcast, operation::barrier);
  const auto size = GENERATE(std::size_t{100}, std::size_t{30'000});
  const auto phase = GENERATE(local_phase::pack, local_phase::reduce, local_phase::unpack);
  const auto stopped_rank = GENERATE(0u, 1u);
  const auto stopped_step = GENERATE(0u, 1u, 5u);

  auto segments = make_segments(small_layout());
  abort_token abort;
  std::promise<void> stopped;
  std::promise<void> go_on;
  bool stops = false;
  std::vector<std::unique_ptr<shm_path>> paths;
  std::vector<load> loads;
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    shm_path::probe probe;
    if (rank == stopped_rank)
      probe = [&](local_phase at, std::uint64_t step) {
        if (at != phase || step != stopped_step)
          return;
        stops = true;
        stopped.set_value();
        go_on.get_future().wait();
      };
    paths.push_back(std::make_unique<shm_path>(segments[rank], rank, long_wait, probe));
    loads.emplace_back(kind, size, rank);
  }
  const auto run = [&](std::uint32_t rank) {
    const auto result = paths[rank]->run(loads[rank].bundle, {abort, far(), "test deadline"}).error;
    if (rank == stopped_rank && !stops)
      stopped.set_value(); // this operation has no such phase or step
    return result;
  };
  std::vector<std::future<error>> ends;
  for (std::uint32_t rank = 0; rank < members; ++rank)
    ends.push_back(std::async(std::launch::async, run, rank));
  stopped.get_future().wait();
  abort.raise();

  std::vector<bytes> snapshots(members);
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    if (rank == stopped_rank)
      continue;
    const auto end = ends[rank].get();
    // A member succeeds if it needs no more of the stopped member or has finished before the abort.
    CHECK((end.kind == error_kind::disconnected || end.kind == error_kind::none));
    snapshots[rank] = loads[rank].output;
  }
  go_on.set_value();
  const auto end = ends[stopped_rank].get();
  CHECK((end.kind == error_kind::disconnected || end.kind == error_kind::none));
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    if (rank != stopped_rank)
      CHECK(loads[rank].output == snapshots[rank]);
    CHECK(loads[rank].input == bytes(size, std::byte(rank + 1)));
  }
}

TEST_CASE("local: the error of an expired deadline names its setting, the awaited member and the bundle") {
  auto segments = make_segments(small_layout());
  abort_token abort;
  shm_path path(segments[0], 0, long_wait);
  load tensor(operation::allreduce, 100, 0);
  tensor.bundle.sequence = 41;
  const auto soon = steady_clock::now() + std::chrono::milliseconds(5);
  const auto end = path.run(tensor.bundle, {abort, soon, "operation timeout (X) = 30 s"}).error;
  CHECK(end.kind == error_kind::timed_out);
  CHECK(end.text ==
        "allreduce (bundle 41) waited for local member 1 until the operation timeout (X) = 30 s passed");
  CHECK(tensor.output == bytes(100));

  // After that the steps of the members no longer agree, so the path stays unusable.
  const auto next = path.run(tensor.bundle, {abort, far(), "test deadline"}).error;
  CHECK(next == end);
}

TEST_CASE("local: each wait of an operation has the whole timeout, however long the operation has taken") {
  auto segments = make_segments(small_layout());
  abort_token abort;
  constexpr std::size_t size = 40 * 4096;
  constexpr std::uint32_t last = members - 1;
  constexpr std::uint64_t long_step = 5;
  std::vector<load> loads;
  std::vector<deadline_and_abort> deadlines(members, {abort, far(), "test deadline"});
  std::atomic<bool> any_ended = false;
  const auto is_awaited = [&] {
    const auto& counters = segments[last]->counters(last);
    return counters.packed.waiters + counters.reduced.waiters + counters.released.waiters != 0;
  };
  // In this step the deadline passes, and the last member goes on once another waits for it.
  const auto take_long = [&](std::uint32_t rank, local_phase phase, std::uint64_t step) {
    if (phase != local_phase::pack || step != long_step)
      return;
    deadlines[rank].deadline = {};
    while (rank == last && !is_awaited() && !any_ended)
      std::this_thread::yield();
  };
  for (std::uint32_t rank = 0; rank < members; ++rank)
    loads.emplace_back(operation::allreduce, size, rank);
  std::vector<std::future<error>> ends;
  for (std::uint32_t rank = 0; rank < members; ++rank)
    ends.push_back(std::async(std::launch::async, [&, rank] {
      shm_path path(segments[rank], rank, long_wait,
                    [&, rank](local_phase phase, std::uint64_t step) { take_long(rank, phase, step); });
      auto problem = path.run(loads[rank].bundle, deadlines[rank]).error;
      any_ended = true;
      return problem;
    }));
  for (auto& end : ends)
    CHECK(end.get().text == "");
  for (const auto& load : loads)
    CHECK(load.output == bytes(size, std::byte(1 + 2 + 3)));
}

TEST_CASE("local: an operation in which a member stops fails after the timeout") {
  const auto kind = GENERATE(operation::allreduce, operation::allgather, operation::broadcast);
  constexpr std::uint32_t stopped = 1;
  auto segments = make_segments(small_layout());
  abort_token abort;
  std::promise<void> go_on;
  bool stops = false;
  std::vector<load> loads;
  for (std::uint32_t rank = 0; rank < members; ++rank)
    loads.emplace_back(kind, 40 * 4096, rank);
  const auto run = [&](std::uint32_t rank) {
    shm_path path(segments[rank], rank, long_wait, [&, rank](local_phase, std::uint64_t step) {
      if (rank == stopped && step == 5 && !std::exchange(stops, true))
        go_on.get_future().wait();
    });
    const auto end = rank == stopped ? far() : steady_clock::now() + std::chrono::milliseconds(100);
    return path.run(loads[rank].bundle, {abort, end, "test deadline"}).error;
  };
  std::vector<std::future<error>> ends;
  for (std::uint32_t rank = 0; rank < members; ++rank)
    ends.push_back(std::async(std::launch::async, run, rank));
  for (const std::uint32_t rank : {0u, 2u})
    CHECK(ends[rank].get().kind == error_kind::timed_out);
  abort.raise();
  go_on.set_value();
}

TEST_CASE("local: an abort token that is already raised ends the next operation at once") {
  auto segments = make_segments(small_layout());
  abort_token abort;
  abort.raise();
  shm_path path(segments[0], 0, long_wait);
  const auto kind = GENERATE(operation::allreduce, operation::allgather, operation::barrier);
  load tensor(kind, 10'000, 0);
  CHECK(path.run(tensor.bundle, {abort, far(), "test deadline"}).error.kind == error_kind::disconnected);
}

TEST_CASE("local: after a process dies in an operation an abort ends the waits of the others") {
  const auto phase = GENERATE(local_phase::pack, local_phase::reduce, local_phase::unpack);
  auto layout = small_layout();
  layout.members = 2;
  auto made = shm_segment::create(layout);
  std::shared_ptr<shm_segment> own = std::move(*made);
  const int shared = own->shared_descriptor();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // The child does not have the parent's mapping: it maps the segment itself, like any other member.
    auto adopted = shm_segment::adopt(descriptor(dup(shared)), layout);
    if (!adopted)
      _exit(2);
    shm_path path(std::move(*adopted), 1, long_wait, [&](local_phase at, std::uint64_t step) {
      if (at == phase && step == 3)
        _exit(7);
    });
    bytes tensor(100'000);
    work bundle;
    bundle.dtype = dtype::uint8;
    bundle.parts.push_back({tensor.data(), tensor.data(), tensor.size(), {}});
    abort_token never;
    path.run(bundle, {never, far(), "test deadline"});
    _exit(3);
  }
  abort_token abort;
  shm_path path(own, 0, long_wait);
  load tensor(operation::allreduce, 100'000, 0);
  auto end = std::async(std::launch::async, [&] {
    return path.run(tensor.bundle, {abort, far(), "test deadline"}).error;
  });
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 7);
  abort.raise();
  CHECK(end.get().kind == error_kind::disconnected);
}
