// If any wait of an operation on the local path fails, for any reason, the operation ends with the error.
// Each test runs one member: it writes the counters of the neighbours into the segment, and resets them for
// one wait only, so that no later wait can hide an ignored failure.
#include <catch2/catch.hpp>

#include "collectives/transport/bundle_testing.hpp"
#include "collectives/transport/shm/shm_path.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

constexpr futex_wait long_wait{futex_wait::polling::yielding, std::chrono::microseconds(5),
                               yield_policy(true)};
constexpr std::uint32_t slots = 3;
constexpr auto counters = {&member_counters::packed, &member_counters::reduced, &member_counters::released};

enum class fault : std::uint8_t {
  absent,  ///< the neighbours do not arrive before the deadline
  damaged, ///< their counters do not match their checksums
  aborted  ///< the generation ends
};

segment_layout layout_of(std::uint32_t members) {
  segment_layout layout;
  layout.members = members;
  layout.chunk_bytes = 4096;
  layout.slots = slots;
  return layout;
}

/// A member whose neighbours are far ahead of it, except during one wait.
class lone_member {
public:
  lone_member(std::uint32_t rank, std::uint32_t members)
      : segment_(std::move(*shm_segment::create(layout_of(members)))), rank_(rank),
        path_(segment_, rank, long_wait,
              [this](local_phase phase, std::uint64_t step) { before(phase, step); }) {
    publish_all();
  }

  void fail(fault kind, std::size_t wait) {
    kind_ = kind;
    failing_ = wait;
  }
  error run(const work& bundle) {
    // Only the wait that fails is not satisfied at once.
    return path_.run(bundle, {abort_, kind_ == fault::absent ? steady_clock::now() : far(), "test deadline"})
        .error;
  }
  std::size_t waits() const { return waits_; }

private:
  void before(local_phase phase, std::uint64_t step) {
    publish_all();
    if (phase != local_phase::wait || waits_++ != failing_)
      return;
    if (kind_ == fault::aborted)
      abort_.raise();
    each_neighbour([&](shared_counter& counter) {
      if (kind_ == fault::absent)
        counter.value = static_cast<std::uint32_t>(step - 1);
      if (kind_ == fault::damaged)
        counter.proof ^= std::uint64_t{1} << 40;
    });
  }
  void publish_all() {
    each_neighbour([](shared_counter& counter) { counter.publish(1 << 20); });
  }
  template <class Act>
  void each_neighbour(const Act& act) {
    for (std::uint32_t member = 0; member < segment_->layout().members; ++member)
      for (const auto counter : counters)
        if (member != rank_)
          act(segment_->counters(member).*counter);
  }

  const std::shared_ptr<shm_segment> segment_;
  const std::uint32_t rank_;
  shm_path path_;
  abort_token abort_;
  fault kind_{};
  std::size_t failing_ = SIZE_MAX;
  std::size_t waits_ = 0;
};

const char* reason_of(fault kind) {
  switch (kind) {
  case fault::absent:
    return "until the test deadline passed";
  case fault::damaged:
    return "found the progress of local member";
  default:
    return "was given up";
  }
}

} // namespace

TEST_CASE("local: a failure of any wait fails its operation") {
  const auto op = GENERATE(operation::allreduce, operation::allgather, operation::broadcast,
                           operation::alltoall, operation::reducescatter, operation::barrier);
  const auto reduction = GENERATE(reduce_op::sum, reduce_op::adasum);
  if (reduction == reduce_op::adasum && op != operation::allreduce)
    return;
  const auto members = GENERATE(2u, 4u);
  const auto count = GENERATE(std::size_t{16}, std::size_t{10'000}); // one step, or more steps than slots
  const auto kind = GENERATE(fault::absent, fault::damaged, fault::aborted);
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    const bundle_of own(op, count, members, dtype::float32, reduction);
    lone_member undisturbed(rank, members);
    REQUIRE(undisturbed.run(own.bundle).text == "");
    INFO("operation " << static_cast<int>(op) << " of " << members << " members, rank " << rank << ", "
                      << undisturbed.waits() << " waits");
    REQUIRE(undisturbed.waits() > 0);
    for (std::size_t failing = 0; failing < undisturbed.waits(); ++failing) {
      lone_member disturbed(rank, members);
      disturbed.fail(kind, failing);
      const auto ended = disturbed.run(own.bundle);
      CAPTURE(failing);
      CHECK_THAT(ended.text, Catch::Contains(reason_of(kind)));
      // The path stays unusable, since its steps no longer agree with those of the neighbours.
      CHECK(disturbed.run(own.bundle) == ended);
    }
  }
}
