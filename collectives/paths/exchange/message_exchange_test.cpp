// Whatever message of an operation fails, the operation itself ends with the error: no wait is left out.
#include <catch2/catch.hpp>

#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "collectives/paths/exchange/message_exchange.hpp"

using namespace farandole;

namespace {

using bytes = std::vector<std::byte>;

/// Each message is done at once, but one: that one fails, as the wait for its ticket says.
class failing_messenger final : public messenger {
public:
  failing_messenger(std::int32_t rank, std::int32_t members, std::size_t fails)
      : rank_(rank), members_(members), fails_(fails) {}

  std::int32_t rank() const override { return rank_; }
  std::int32_t members() const override { return members_; }
  void send(std::int32_t, message_phase, std::span<const std::byte>, message_ticket& ticket) override {
    move(ticket);
  }
  void receive(std::int32_t, message_phase, std::span<std::byte> to, message_ticket& ticket) override {
    if (!to.empty())
      std::memset(to.data(), 0, to.size());
    move(ticket);
  }
  void look() override {}
  error wait(const message_ticket& ticket, const limits&) override {
    if (ticket.pending == 0)
      return {};
    return {error_kind::disconnected, "message " + std::to_string(fails_)};
  }
  /// Messages so far.
  std::size_t moved() const { return moved_; }

private:
  void move(message_ticket& ticket) {
    if (moved_++ == fails_)
      ++ticket.pending;
  }

  std::int32_t rank_;
  std::int32_t members_;
  std::size_t fails_;
  std::size_t moved_ = 0;
};

/// An operation of `members`, on `count` floats for each of them; in place where that can be.
struct bundle_of {
  operation what;
  reduce_op how;
  std::size_t count;
  std::size_t members;
  bytes input = {};
  bytes output = {};

  work made() {
    work bundle;
    bundle.operation = what;
    bundle.reduce_op = how;
    bundle.dtype = dtype::float32;
    bundle.root = what == operation::broadcast ? 0 : -1;
    const bool in_rows = what == operation::alltoall || what == operation::reducescatter;
    const auto row = 4 * count;
    input.assign(in_rows ? members * row : row, std::byte{0});
    output.assign(what == operation::allgather || what == operation::alltoall ? members * row : input.size(),
                  std::byte{0});
    if (what == operation::allgather)
      bundle.gathered.assign(members, row);
    if (in_rows)
      bundle.sent.assign(members, row);
    if (what == operation::alltoall)
      bundle.received.assign(members, row);
    if (what != operation::barrier)
      bundle.parts.push_back({input.data(), output.data(), input.size(), {}});
    return bundle;
  }
};

/// How it ends where message `fails` does; and how many messages it has had by then.
std::pair<error, std::size_t> played(bundle_of what, std::int32_t rank, std::size_t fails) {
  failing_messenger worker(rank, static_cast<std::int32_t>(what.members), fails);
  message_staging staging{};
  staging.adasum_message_bytes = 1 << 20;
  const work bundle = what.made();
  abort_token abort;
  const limits until{abort, std::chrono::steady_clock::time_point::max(), "patience"};
  const message_exchange::probe nobody;
  auto problem = message_exchange(worker, staging, bundle, until, nobody, nullptr).run();
  return {std::move(problem), worker.moved()};
}

} // namespace

TEST_CASE("a message that fails, whichever it is, fails the operation that it belongs to") {
  const auto what = GENERATE(operation::allreduce, operation::allgather, operation::broadcast,
                             operation::alltoall, operation::reducescatter, operation::barrier);
  const auto how = GENERATE(reduce_op::sum, reduce_op::adasum);
  if (how == reduce_op::adasum && what != operation::allreduce)
    return;
  const std::size_t members = GENERATE(std::size_t{2}, std::size_t{4});
  const std::size_t count = GENERATE(std::size_t{3}, std::size_t{400'000}); // one message, or pieces
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(members); ++rank) {
    const bundle_of all{what, how, count, members};
    const auto [none, messages] = played(all, rank, std::size_t(-1));
    INFO("operation " << static_cast<int>(what) << " of " << members << " members, rank " << rank << ", "
                      << messages << " messages");
    REQUIRE_FALSE(none);
    REQUIRE(messages > 0);
    for (std::size_t fails = 0; fails < messages; ++fails) {
      const auto ended = played(all, rank, fails);
      CHECK(ended.first.text == "message " + std::to_string(fails));
    }
  }
}
