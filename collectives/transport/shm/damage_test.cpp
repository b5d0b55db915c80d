// Writes random words into the counters of the local path while members run. Each operation must end with an
// error or with the right result within its deadline. Tensors in slots carry no checksum and are not
// overwritten. actors/submission/operation_state_damage_test.cpp tests the shared memory of the submission
// queues.
#include <catch2/catch.hpp>

#include <atomic>
#include <cstring>
#include <random>

#include "collectives/transport/paths_testing.hpp"
#include "collectives/transport/shm/shm_path.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

constexpr futex_wait long_wait{futex_wait::polling::yielding, std::chrono::microseconds(5),
                               yield_policy(true)};
constexpr std::uint32_t members = 2;
/// Ends operations that would wait for an overwritten word for ever; half of the writes cause such a wait.
constexpr std::chrono::milliseconds short_deadline{2};

struct scenario {
  const char* name;
  operation asked_operation;
  std::size_t count; ///< number of floats in a member's input
  reduce_op op = reduce_op::sum;
};

constexpr scenario scenarios[] = {
    {"allreduce at once", operation::allreduce, 64},
    {"allreduce in chunks", operation::allreduce, 24'000},
    {"Adasum", operation::allreduce, 3'000, reduce_op::adasum},
    {"allgather", operation::allgather, 3'000},
    {"broadcast", operation::broadcast, 24'000},
    {"reducescatter", operation::reducescatter, 3'000},
    {"alltoall", operation::alltoall, 3'000},
    {"barrier", operation::barrier, 0},
};

/// A tensor with untouched bytes on both sides.
class guarded {
public:
  static constexpr std::size_t margin = 64;
  explicit guarded(std::size_t size) : memory_(size + 2 * margin, std::byte{0xa5}) {}
  std::byte* data() { return memory_.data() + margin; }
  bytes content() const {
    return {memory_.begin() + margin, memory_.end() - static_cast<std::ptrdiff_t>(margin)};
  }
  bool intact() const {
    const auto untouched = [](std::byte data) { return data == std::byte{0xa5}; };
    return std::all_of(memory_.begin(), memory_.begin() + margin, untouched) &&
           std::all_of(memory_.end() - static_cast<std::ptrdiff_t>(margin), memory_.end(), untouched);
  }

private:
  bytes memory_;
};

/// One member's side of a scenario.
struct side {
  bytes input;
  guarded output;
  work bundle;

  side(const scenario& scenario, std::uint32_t rank)
      : input(scenario.count * sizeof(float)),
        output(scenario.asked_operation == operation::allgather ? members * input.size() : input.size()) {
    for (std::size_t i = 0; i < scenario.count; ++i) {
      const auto value = static_cast<float>(i % 97 + 1) * (rank == 0 ? 1.0F : -0.5F);
      std::memcpy(input.data() + i * sizeof value, &value, sizeof value);
    }
    const auto half = input.size() / members;
    bundle.operation = scenario.asked_operation;
    bundle.reduce_op = scenario.op;
    bundle.root = scenario.asked_operation == operation::broadcast ? 1 : -1;
    if (scenario.asked_operation == operation::allgather)
      bundle.gathered = {input.size(), input.size()};
    if (scenario.asked_operation == operation::reducescatter ||
        scenario.asked_operation == operation::alltoall)
      bundle.sent = {half, half};
    if (scenario.asked_operation == operation::alltoall) {
      bundle.received = {half, half};
      bundle.longest = half;
    }
    if (scenario.asked_operation != operation::barrier)
      bundle.parts.push_back({input.data(), output.data(), input.size(), {}});
  }
};

/// One operation of the members of a host, during which `damage` is called at one of their phases.
struct trial {
  std::vector<std::shared_ptr<shm_segment>> segments;
  std::vector<std::unique_ptr<side>> sides;
  std::vector<error> errors{members};
  std::atomic<std::size_t> phases{0};
  abort_token abort;

  trial(const scenario& scenario, steady_clock::time_point deadline, std::size_t at,
        const std::function<void(shm_segment&)>& damage) {
    segment_layout layout;
    layout.members = members;
    layout.chunk_bytes = 16 << 10;
    layout.slots = 3;
    segments = make_segments(layout);
    for (std::uint32_t rank = 0; rank < members; ++rank)
      sides.push_back(std::make_unique<side>(scenario, rank));
    together(members, [&](std::uint32_t rank) {
      shm_path path(segments[rank], rank, long_wait, [&](local_phase, std::uint64_t) {
        if (phases.fetch_add(1) == at)
          damage(*segments[rank]);
      });
      errors[rank] = path.run(sides[rank]->bundle, {abort, deadline, "test deadline"}).error;
      if (errors[rank])
        abort.raise(); // as at the end of a generation
    });
  }
};

/// Writes four or eight random bytes, or changes one bit.
void overwrite(std::byte* at, std::size_t size, std::mt19937_64& random) {
  const auto word = random();
  if (random() % 2 == 0)
    std::memcpy(at, &word, size);
  else
    at[word % size] ^= std::byte{1} << (random() % 8);
}

/// Overwrites bytes in the counters of a random member.
void write_somewhere(shm_segment& shared, std::mt19937_64& random) {
  const auto member = static_cast<std::uint32_t>(random() % members);
  const std::size_t size = random() % 2 == 0 ? 4 : 8;
  auto* const base = reinterpret_cast<std::byte*>(&shared.counters(member));
  // The gaps between the fields of the counters are unused, so most writes hit a field.
  auto offset = random() % (sizeof(member_counters) - size + 1);
  if (random() % 8 != 0)
    offset = random() % 3 * sizeof(shared_counter) + random() % 3 * 4;
  overwrite(base + offset, size, random);
}

} // namespace

TEST_CASE("an operation with a random word in its counters fails or gives the right result") {
  constexpr std::size_t writes_of_each = 300;
  std::mt19937_64 random(20'261'123);
  std::size_t reported = 0;
  for (const auto& scenario : scenarios) {
    INFO(scenario.name);
    const trial undisturbed(scenario, far(), SIZE_MAX, {});
    for (const auto& error : undisturbed.errors)
      REQUIRE(error.text == "");
    std::size_t wrong = 0, overrun = 0;
    for (std::size_t i = 0; i < writes_of_each; ++i) {
      const std::size_t at = random() % undisturbed.phases;
      const trial disturbed(scenario, steady_clock::now() + short_deadline, at,
                            [&](shm_segment& shared) { write_somewhere(shared, random); });
      for (std::uint32_t rank = 0; rank < members; ++rank) {
        const auto& output = disturbed.sides[rank]->output;
        overrun += !output.intact();
        wrong += !disturbed.errors[rank] && output.content() != undisturbed.sides[rank]->output.content();
        reported += disturbed.errors[rank].text.find("damaged in shared memory") != std::string::npos;
      }
    }
    CHECK(wrong == 0);
    CHECK(overrun == 0);
  }
  // Which writes a member sees before its deadline depends on how fast it runs.
  CHECK(reported > 0);
}
