// The mpi path over a stand-in for MPI that carries messages between threads, and carries none when told so.
#include <catch2/catch.hpp>

#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>

#include "collectives/math/reduce.hpp"
#include "collectives/paths/mpi/mpi_path.hpp"
#include "collectives/paths/paths_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

/// A member's communicator has the number of its rank. Requests are numbers of entries.
struct stand_in {
  struct entry {
    bool receives;
    std::int32_t from, to, tag;
    const void* data;
    void* target;
    std::size_t bytes;
    bool done = false;
  };
  std::mutex guard;
  std::deque<entry> entries;
  bool held = false; ///< nothing is carried
  int send_code = 0; ///< what sending answers
  bool initialized_elsewhere = false;
  int finalized = 0;

  std::size_t asked() {
    std::lock_guard lock(guard);
    return entries.size();
  }

  /// Pairs each receive with the earliest send that fits.
  void carry() {
    if (held)
      return;
    for (auto& in : entries)
      for (auto& out : entries)
        if (in.receives && !in.done && !out.receives && !out.done &&
            std::tie(in.from, in.to, in.tag) == std::tie(out.from, out.to, out.tag)) {
          if (out.bytes > 0)
            std::memcpy(in.target, out.data, out.bytes);
          in.done = out.done = true;
          break;
        }
  }
};

stand_in* world = nullptr;

int look(mpi_state* state) {
  *state = {true, false, false, mpi_level::multiple, 0, 4, 32767};
  if (world->initialized_elsewhere)
    state->level = mpi_level::single;
  return 0;
}
int initialize(mpi_level) {
  return 0;
}
int finalize() {
  ++world->finalized;
  return 0;
}
int form(const std::int32_t*, std::int32_t, mpi_handle*, bool*) {
  return 1;
}
int send(mpi_handle group, std::int32_t peer, std::int32_t tag, const void* data, std::size_t bytes,
         mpi_handle* request) {
  std::lock_guard lock(world->guard);
  world->entries.push_back({false, static_cast<std::int32_t>(group), peer, tag, data, nullptr, bytes});
  *request = world->entries.size() - 1;
  return world->send_code;
}
int receive(mpi_handle group, std::int32_t peer, std::int32_t tag, void* data, std::size_t bytes,
            mpi_handle* request) {
  std::lock_guard lock(world->guard);
  world->entries.push_back({true, peer, static_cast<std::int32_t>(group), tag, nullptr, data, bytes});
  *request = world->entries.size() - 1;
  return 0;
}
int test(mpi_handle* requests, std::int32_t count, std::int32_t* done, std::int32_t* places,
         std::int32_t* codes) {
  std::lock_guard lock(world->guard);
  world->carry();
  *done = 0;
  for (std::int32_t at = 0; at < count; ++at)
    if (world->entries[requests[at]].done) {
      places[*done] = at;
      codes[(*done)++] = 0;
    }
  return 0;
}
int cancel(mpi_handle) {
  return 0;
}
void describe(int code, char* text, std::size_t bytes) {
  std::snprintf(text, bytes, "code %d", code);
}

constexpr mpi_module module{
    mpi_module_version, look, initialize, finalize, form, send, receive, test, cancel, describe};

/// Some members, each with an engine of its own, as processes have.
struct some_members {
  explicit some_members(std::int32_t size) {
    world = &mpi;
    for (std::int32_t rank = 0; rank < size; ++rank) {
      engines.push_back(std::make_unique<mpi_engine>(module));
      std::vector<std::int32_t> places;
      for (std::int32_t each = 0; each < size; ++each)
        places.push_back(each);
      const mpi_group job{static_cast<mpi_handle>(rank), rank, size, 32767, true};
      paths.push_back(std::make_unique<mpi_path>(
          mpi_set{engines.back().get(), job, 5, places, rank, waiting::decide(2)}, std::size_t{1} << 20));
    }
  }
  ~some_members() {
    paths.clear();
    engines.clear();
    world = nullptr;
  }
  void run(const std::function<void(std::size_t, mpi_path&)>& act) {
    together(static_cast<std::uint32_t>(paths.size()), [&](std::uint32_t rank) { act(rank, *paths[rank]); });
  }
  limits until(steady_clock::time_point deadline = far()) const {
    return {abort, deadline, "patience (TEST_PATIENCE) = 240 s"};
  }

  stand_in mpi;
  abort_token abort;
  std::vector<std::unique_ptr<mpi_engine>> engines;
  std::vector<std::unique_ptr<mpi_path>> paths;
};

bytes numbers(std::size_t rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(7 + rank));
  return random_elements(dtype::float32, count, random);
}

work allreduce_of(bytes& input, bytes& output) {
  work bundle;
  bundle.postscale = 0.5;
  bundle.parts.push_back({input.data(), output.data(), input.size(), {}});
  return bundle;
}

} // namespace

TEST_CASE("mpi: sums have the bits of rank order, whatever their size", "[mpi]") {
  some_members job(3);
  for (std::size_t count : {std::size_t{1}, std::size_t{5000}, std::size_t{300'000}}) {
    std::vector<bytes> inputs;
    std::vector<const std::byte*> pointers;
    for (std::size_t rank = 0; rank < 3; ++rank)
      inputs.push_back(numbers(rank, count));
    for (auto& each : inputs)
      pointers.push_back(each.data());
    bytes wanted(count * 4);
    reduce(dtype::float32, reduce_op::sum, wanted.data(), pointers, count, 1, 0.5, 3);
    std::vector<std::string> said(3);
    std::vector<bytes> outputs(3, bytes(count * 4));
    job.run([&](std::size_t rank, mpi_path& path) {
      said[rank] = path.run(allreduce_of(inputs[rank], outputs[rank]), job.until()).error.text;
    });
    for (std::size_t rank = 0; rank < 3; ++rank) {
      CHECK(said[rank] == "");
      CHECK(outputs[rank] == wanted);
    }
  }
}

TEST_CASE("mpi: members meet, rows differ in length and go where they belong", "[mpi]") {
  some_members job(3);
  std::vector<std::string> said(3);
  std::vector<bytes> gathered(3, bytes(12)), exchanged(3);
  job.run([&](std::size_t rank, mpi_path& path) {
    said[rank] = path.connect(job.until()).text;
    const bytes own(4 * (rank + 1), static_cast<std::byte>(rank + 1));
    work rows;
    rows.operation = operation::allgather;
    rows.dtype = dtype::uint8;
    rows.gathered = {4, 8, 12};
    gathered[rank].resize(24);
    rows.parts.push_back({own.data(), gathered[rank].data(), own.size(), {}});
    said[rank] += path.run(rows, job.until()).error.text;

    work swap; // to member r go r bytes
    swap.sequence = 1;
    swap.operation = operation::alltoall;
    swap.dtype = dtype::uint8;
    swap.sent = {0, 1, 2};
    swap.received = {rank, rank, rank};
    swap.longest = 2;
    const bytes out(3, static_cast<std::byte>(10 + rank));
    exchanged[rank].resize(3 * rank);
    swap.parts.push_back({out.data(), exchanged[rank].data(), out.size(), {}});
    said[rank] += path.run(swap, job.until()).error.text;

    work meet;
    meet.sequence = 2;
    meet.operation = operation::barrier;
    said[rank] += path.run(meet, job.until()).error.text;
  });
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CHECK(said[rank] == "");
    for (std::size_t at = 0; at < 24; ++at)
      CHECK(static_cast<int>(gathered[rank][at]) == (at < 4 ? 1 : at < 12 ? 2 : 3));
    for (std::size_t at = 0; at < exchanged[rank].size(); ++at)
      CHECK(static_cast<std::size_t>(exchanged[rank][at]) == 10 + at / rank);
  }
}

TEST_CASE("mpi: after an abort nothing touches the caller's memory, even if MPI goes on", "[mpi]") {
  some_members job(2);
  job.mpi.held = true;
  bytes input = numbers(0, 5000), output(20'000, std::byte{9});
  std::thread ends([&] {
    for (const auto end = far(); job.mpi.asked() == 0 && steady_clock::now() < end;)
      std::this_thread::yield();
    job.abort.raise();
  });
  const auto end = job.paths[0]->run(allreduce_of(input, output), job.until());
  ends.join();
  CHECK(end.error.kind == error_kind::disconnected);
  {
    std::lock_guard lock(job.mpi.guard);
    CHECK(!job.mpi.entries.empty());
    for (auto& each : job.mpi.entries) {
      const auto* data = static_cast<const std::byte*>(each.receives ? each.target : each.data);
      CHECK((data < input.data() || data >= input.data() + input.size()));
      CHECK((data < output.data() || data >= output.data() + output.size()));
      if (each.receives)
        std::memset(each.target, 1, each.bytes); // MPI still may: the memory is there
    }
  }
  CHECK(output == bytes(20'000, std::byte{9}));
  CHECK(job.paths[0]->run(allreduce_of(input, output), job.until()).error.kind == error_kind::disconnected);
}

TEST_CASE("mpi: a deadline that passes is cited", "[mpi]") {
  some_members job(2);
  job.mpi.held = true;
  bytes input = numbers(0, 10), output(40);
  const auto end = job.paths[0]->run(allreduce_of(input, output), job.until(steady_clock::now()));
  CHECK(end.error.kind == error_kind::timed_out);
  CHECK(end.error.text.find("TEST_PATIENCE") != std::string::npos);
}

TEST_CASE("mpi: what MPI refuses is told in its words", "[mpi]") {
  some_members job(2);
  job.mpi.send_code = 17;
  bytes input = numbers(0, 10), output(40);
  const auto end = job.paths[0]->run(allreduce_of(input, output), job.until());
  CHECK(end.error.kind == error_kind::unknown);
  CHECK(end.error.text.find("code 17") != std::string::npos);
}

TEST_CASE("mpi: a process whose MPI was not made for threads is told what to set", "[mpi]") {
  stand_in mpi;
  world = &mpi;
  mpi_engine engine(module);
  CHECK_FALSE(engine.start(false, far()));
  mpi.initialized_elsewhere = true;
  const auto problem = engine.start(false, far());
  CHECK(problem.kind == error_kind::precondition);
  CHECK(problem.text.find("mpi4py.rc.thread_level") != std::string::npos);
  engine.finish(far());
  CHECK(mpi.finalized == 0); // not ours
}
