// The mpi path over a fake MPI.
#include <catch2/catch.hpp>

#include "collectives/math/reduce.hpp"
#include "collectives/transport/mpi/mpi_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

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

TEST_CASE("mpi: an allreduce of any size gives the bits of one reduction in rank order", "[mpi]") {
  mpi_members job(3);
  for (std::size_t count : {std::size_t{1}, std::size_t{5000}, std::size_t{300'000}}) {
    std::vector<bytes> inputs;
    std::vector<const std::byte*> pointers;
    for (std::size_t rank = 0; rank < 3; ++rank)
      inputs.push_back(numbers(rank, count));
    for (auto& input : inputs)
      pointers.push_back(input.data());
    bytes wanted(count * 4);
    reduce(dtype::float32, reduce_op::sum, wanted.data(), pointers, count, 1, 0.5, 3);
    std::vector<std::string> said(3);
    std::vector<bytes> outputs(3, bytes(count * 4));
    job.run([&](std::size_t rank, p2p_path& path) {
      said[rank] = path.run(allreduce_of(inputs[rank], outputs[rank]), job.deadline()).error.text;
    });
    for (std::size_t rank = 0; rank < 3; ++rank) {
      CHECK(said[rank] == "");
      CHECK(outputs[rank] == wanted);
    }
  }
}

TEST_CASE("mpi: connect, allgather with uneven rows, alltoall and barrier succeed", "[mpi]") {
  mpi_members job(3);
  std::vector<std::string> said(3);
  std::vector<bytes> gathered(3, bytes(12)), exchanged(3);
  job.run([&](std::size_t rank, p2p_path& path) {
    said[rank] = path.connect({}, static_cast<std::int32_t>(rank), job.deadline()).text;
    const bytes own(4 * (rank + 1), static_cast<std::byte>(rank + 1));
    work rows;
    rows.operation = operation::allgather;
    rows.dtype = dtype::uint8;
    rows.gathered = {4, 8, 12};
    gathered[rank].resize(24);
    rows.parts.push_back({own.data(), gathered[rank].data(), own.size(), {}});
    said[rank] += path.run(rows, job.deadline()).error.text;

    work swap; // every member sends r bytes to member r
    swap.sequence = 1;
    swap.operation = operation::alltoall;
    swap.dtype = dtype::uint8;
    swap.sent = {0, 1, 2};
    swap.received = {rank, rank, rank};
    swap.longest = 2;
    const bytes part(3, static_cast<std::byte>(10 + rank));
    exchanged[rank].resize(3 * rank);
    swap.parts.push_back({part.data(), exchanged[rank].data(), part.size(), {}});
    said[rank] += path.run(swap, job.deadline()).error.text;

    work meet;
    meet.sequence = 2;
    meet.operation = operation::barrier;
    said[rank] += path.run(meet, job.deadline()).error.text;
  });
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CHECK(said[rank] == "");
    for (std::size_t at = 0; at < 24; ++at)
      CHECK(static_cast<int>(gathered[rank][at]) == (at < 4 ? 1 : at < 12 ? 2 : 3));
    for (std::size_t at = 0; at < exchanged[rank].size(); ++at)
      CHECK(static_cast<std::size_t>(exchanged[rank][at]) == 10 + at / rank);
  }
}

TEST_CASE("mpi: after an abort late messages of MPI do not touch the caller's memory", "[mpi]") {
  mpi_members job(2);
  job.mpi.held = true;
  bytes input = numbers(0, 5000), output(20'000, std::byte{9});
  std::thread ends([&] {
    for (const auto end = far(); job.mpi.asked() == 0 && steady_clock::now() < end;)
      std::this_thread::yield();
    job.abort.raise();
  });
  const auto end = job.paths[0]->run(allreduce_of(input, output), job.deadline());
  ends.join();
  CHECK(end.error.kind == error_kind::disconnected);
  {
    std::lock_guard lock(job.mpi.guard);
    CHECK(!job.mpi.entries.empty());
    for (auto& entry : job.mpi.entries) {
      const auto* data = static_cast<const std::byte*>(entry.receives ? entry.target : entry.data);
      CHECK((data < input.data() || data >= input.data() + input.size()));
      CHECK((data < output.data() || data >= output.data() + output.size()));
      if (entry.receives)
        std::memset(entry.target, 1, entry.bytes); // MPI may still write here, so the memory must exist
    }
  }
  CHECK(output == bytes(20'000, std::byte{9}));
  CHECK(job.paths[0]->run(allreduce_of(input, output), job.deadline()).error.kind ==
        error_kind::disconnected);
}

TEST_CASE("mpi: the error of an expired deadline names its setting", "[mpi]") {
  mpi_members job(2);
  job.mpi.held = true;
  bytes input = numbers(0, 10), output(40);
  const auto end = job.paths[0]->run(allreduce_of(input, output), job.deadline(steady_clock::now()));
  CHECK(end.error.kind == error_kind::timed_out);
  CHECK(end.error.text.find("TEST_PATIENCE") != std::string::npos);
}

TEST_CASE("mpi: each wait has the whole timeout, however long the operation has taken", "[mpi]") {
  mpi_members job(2);
  std::vector<std::string> said(2);
  job.run([&](std::size_t rank, p2p_path& path) {
    bytes input = numbers(rank, 8000), output(input.size());
    auto deadline = job.deadline();
    piece_callbacks callbacks;
    callbacks.pieces = 8;
    callbacks.piece_bytes = input.size() / callbacks.pieces;
    callbacks.before = [&](std::size_t piece) {
      if (piece == 2)
        deadline.deadline = {}; // it passes
      return error{};
    };
    callbacks.after = [](std::size_t) { return error{}; };
    said[rank] = path.run(allreduce_of(input, output), deadline, callbacks).error.text;
  });
  CHECK(said == std::vector<std::string>{"", ""});
}

TEST_CASE("mpi: an error of MPI is reported with MPI's own text", "[mpi]") {
  mpi_members job(2);
  job.mpi.send_code = 17;
  bytes input = numbers(0, 10), output(40);
  const auto end = job.paths[0]->run(allreduce_of(input, output), job.deadline());
  CHECK(end.error.kind == error_kind::unknown);
  CHECK(end.error.text.find("code 17") != std::string::npos);
}

TEST_CASE("mpi: the error for an MPI without thread support names the setting to change", "[mpi]") {
  fake_mpi mpi;
  world = &mpi;
  mpi_engine engine(module);
  CHECK_FALSE(engine.start(false, far()));
  mpi.initialized_elsewhere = true;
  const auto problem = engine.start(false, far());
  CHECK(problem.kind == error_kind::precondition);
  CHECK(problem.text.find("mpi4py.rc.thread_level") != std::string::npos);
  engine.finish(far());
  CHECK(mpi.finalized == 0); // the engine does not finalize an MPI that it has not initialized
}
