// Feeds sequences of well-formed messages, which the input chooses, to the leader of a process set and to a
// relay below it. The messages come from members that follow no rule, directly and through the relay, and
// from a relay that follows no rule. The leader must answer with schedules that every member can read, must
// blame only members, and must keep its tables within their bounds. If no member has broken a rule, joined or
// ended the set, a new tensor that all members request must move.
#include <chrono>
#include <deque>

#include "collectives/fusion/fusion.hpp"
#include "collectives/negotiation/inline_reduction.hpp"
#include "collectives/negotiation/negotiation.hpp"
#include "collectives/negotiation/paging.hpp"
#include "collectives/relay/relay.hpp"
#include "tests/fuzz/choices.hpp"

using namespace farandole;

namespace {

// Ranks 0, 1 and 2 send to the leader; rank 2 is a relay for ranks 2 to 5, and below it rank 4 is a relay for
// 4 and 5.
constexpr std::int32_t members = 6, relay_rank = 2, lower_relay = 4;
constexpr std::size_t id_capacity = 4, cells = 3, cell_footprint = 256;
constexpr std::uint32_t highest_id = 24;
constexpr std::size_t inline_bytes = 24;
constexpr const char* names[] = {"a", "b", "c", "d", "grad.0", "grad.1", "grad.2", "\x1b[2J"};
using namespace std::chrono_literals;

const std::vector<shape>& shapes() {
  static const std::vector<shape> all = {{},
                                         {4},
                                         {4},
                                         {2, 3},
                                         {3, 3},
                                         {3, 0},
                                         {0, 3},
                                         {std::int64_t{1} << 40},
                                         {1, 1},
                                         {1LL << 60, 0},
                                         {1LL << 58, 2}};
  return all;
}

class job {
public:
  explicit job(choices& input)
      : input_(input), options_(options(input)), leader_(options_), relay_(rules()),
        inline_(options_.members, inline_bytes) {}

  void run() {
    for (int steps = 0; steps < 400 && !input_.done(); ++steps)
      step();
    if (!broken_ && !joins_ && !leader_.ended())
      all_members_ask();
  }

private:
  static negotiation_options options(choices& input) {
    negotiation_options made;
    const auto flags = input.byte();
    for (std::int32_t rank = 0; rank < members; ++rank)
      made.members.push_back(rank);
    made.cache_capacity = (flags & 1) != 0 ? id_capacity : 1024;
    made.fast_path.on = made.fast_path.one_host = (flags & 2) != 0;
    made.fast_path.area_bytes = cells * cell_footprint;
    made.fast_path.limit_bytes = 64;
    made.fast_path.collective_bytes = 64;
    made.fast_path.footprint = [](std::size_t) { return cell_footprint; };
    made.keeps_sets = (flags & 4) != 0;
    if ((flags & 32) == 0)
      made.branches = {{relay_rank, {2, 3, 4, 5}}};
    made.buckets = flags >> 3 & 3;
    return made;
  }

  static relay_rules rules() {
    relay_rules made;
    made.ranks = {2, 3, 4, 5};
    made.branches = {{lower_relay, {4, 5}}};
    return made;
  }

  void step() {
    now_ += input_.byte() % 4 == 0 ? 60ms : 100us;
    switch (input_.below(8)) {
    case 0:
    case 1:
      return to_leader(input_.below(2), random_requests());
    case 2:
    case 3:
      return to_relay(2 + input_.below(2), random_requests());
    case 4:
      return to_relay(random_gathered());
    case 5:
      return to_leader(random_gathered());
    case 6:
      return relay_due();
    default:
      return all_members_ask_for_id();
    }
  }

  // ---- messages ------------------------------------------------------------------------------

  request random_request() {
    request made;
    made.name = input_.among(names);
    auto& signature = made.signature;
    const auto kind = input_.byte();
    signature.operation = static_cast<operation>(kind % operation_count);
    signature.dtype = kind / 16 % 4 == 0 ? dtype::float16 : dtype::float32;
    signature.reduce_op = kind / 64 == 3 ? reduce_op::adasum : reduce_op::sum;
    signature.root = signature.operation == operation::broadcast ? input_.below(members) : -1;
    signature.shape = input_.among(std::span<const shape>(shapes()));
    if (input_.one_in(4)) {
      made.group = static_cast<std::uint32_t>(1 + input_.below(2));
      made.group_size = static_cast<std::uint32_t>(1 + input_.below(3));
    }
    const auto wish = input_.byte();
    made.no_fast_path = wish % 8 == 7;
    made.absent = wish / 64 == 3 && (made.signature.operation == operation::allreduce ||
                                     made.signature.operation == operation::allgather);
    if (input_.one_in(8)) {
      signature.memory = memory_kind::device;
      made.device = static_cast<std::uint8_t>(input_.below(3));
    }
    return made;
  }

  std::uint32_t random_id() { return 1 + static_cast<std::uint32_t>(input_.below(highest_id)); }

  requests random_requests() {
    requests made;
    const auto parts = input_.byte();
    for (int i = 0; i < parts % 4; ++i)
      made.ids.push_back(random_id());
    for (int i = 0; i < parts / 4 % 4; ++i)
      made.full.push_back(random_request());
    if ((parts & 16) != 0 && input_.one_in(4))
      made.left.push_back({random_id(), input_.byte()});
    if ((parts & 32) != 0)
      made.buckets.push_back(1 + static_cast<std::uint32_t>(input_.below(4)));
    if ((parts & 64) != 0 && input_.one_in(4))
      made.withdraw.emplace_back(input_.among(names));
    if ((parts & 128) != 0)
      add_rare(made);
    if (!relayed())
      for (const auto id : made.ids)
        add_value(made, input_.one_in(16) ? random_id() : id);
    return made;
  }

  /// The length fits some tensors, or none.
  void add_value(requests& made, std::uint32_t id) {
    constexpr std::size_t lengths[] = {4, 16, 24, 4, 16, 8, 0, 25};
    made.values.push_back({id, std::vector<std::byte>(input_.among(lengths), std::byte{1})});
  }

  bool relayed() const { return !options_.branches.empty(); }

  void add_rare(requests& made) {
    switch (input_.below(8)) {
    case 0:
      made.join = joins_ = true;
      return;
    case 1:
      if (input_.one_in(8))
        made.leaves = {departure_kind::uncaught_exception, "KeyError: 'labels'", 17};
      return;
    case 2: {
      set_change change;
      change.kind = static_cast<set_change_kind>(input_.below(set_change_kind_count));
      change.id = static_cast<std::uint32_t>(input_.below(4));
      if (change.kind != set_change_kind::remove)
        for (auto count = input_.below(3); count > 0; --count)
          change.sets.push_back(random_ranks());
      made.change = change;
      return;
    }
    case 3:
      made.faults.push_back({static_cast<std::uint32_t>(input_.below(4)), "connection reset"});
      return;
    default:
      made.finished = input_.byte();
    }
  }

  std::vector<std::int32_t> random_ranks() {
    std::vector<std::int32_t> ranks;
    const auto chosen = input_.byte();
    for (std::int32_t rank = 0; rank < 8; ++rank)
      if ((chosen >> rank & 1) != 0)
        ranks.push_back(rank);
    return ranks;
  }

  rank_runs random_runs() {
    if (input_.one_in(2))
      return {};
    rank_runs runs{{input_.below(members), static_cast<std::uint32_t>(1 + input_.below(3))}};
    if (input_.one_in(3))
      runs.push_back({runs[0].first + 3, 1});
    return runs;
  }

  gathered random_gathered() {
    gathered made;
    const auto parts = input_.byte();
    for (int i = 0; i < parts % 4; ++i)
      made.ids.push_back({{random_id(), random_id()}, random_runs()});
    for (int i = 0; i < parts / 4 % 4; ++i)
      made.full.push_back({random_request(), random_runs()});
    for (int i = 0; i < parts / 16 % 4; ++i)
      made.buckets.push_back(1 + static_cast<std::uint32_t>(input_.below(4)));
    if ((parts & 128) != 0)
      made.apart.push_back({input_.below(8), random_requests()});
    return made;
  }

  // ---- receivers ------------------------------------------------------------------------------

  /// The message as a link delivers it; nothing if no link would carry it.
  static std::optional<requests> carried(std::int32_t rank, const requests& message) {
    auto said = decode_requests(encode(address{1, 0, rank}, message));
    return said ? std::optional(std::move(*said)) : std::nullopt;
  }
  static std::optional<gathered> carried(std::int32_t rank, const gathered& message) {
    auto said = decode_gathered(encode(address{1, 0, rank}, message));
    return said ? std::optional(std::move(*said)) : std::nullopt;
  }

  void to_leader(std::int32_t rank, const requests& message) {
    if (const auto said = carried(rank, message))
      taken(rank, *said);
  }

  /// Processes a message like the negotiator.
  void taken(std::int32_t rank, const requests& message) {
    if (inline_.take(rank, message))
      broken_ = true;
    else
      decided(leader_.receive(rank, message, now_));
    require(inline_.kept() <= members * (leader_.ids() + highest_id));
  }

  /// A message of a relay that follows no rule.
  void to_leader(const gathered& message) {
    if (const auto said = carried(relay_rank, message))
      taken(*said);
  }

  void taken(const gathered& message) {
    decided(leader_.receive(relay_rank, message, now_));
    for (const auto& item : message.apart)
      if (leader_.speaks_for(relay_rank, item.rank))
        taken(item.rank, item.batch);
      else
        broken_ = true;
  }

  void to_relay(std::int32_t rank, const requests& message) {
    if (const auto said = carried(rank, message); said && relay_.take(rank, *said, now_))
      broken_ = true;
  }

  void to_relay(const gathered& message) {
    if (const auto said = carried(lower_relay, message); said && relay_.take(lower_relay, *said, now_))
      broken_ = true;
  }

  /// Every message of a relay that follows the rules must be readable.
  void relay_due() {
    const auto up = relay_.due(now_);
    if (up.empty())
      return;
    const auto said = carried(relay_rank, up);
    require(said.has_value());
    taken(*said);
  }

  void decided(negotiation_result message) {
    inline_.complete(message);
    require(leader_.ids() <= (id_capacity + cells) + 1024);
    if (message.breach) {
      require(message.broken_by >= 0 && message.broken_by < members && !message.breach.text.empty());
      broken_ = true;
    }
    for (const auto& item : message.refusals)
      require(item.rank >= 0 && item.rank < members && !item.failure.reason.text.empty());
    for (const auto& item : message.questions)
      require(item.rank >= 0 && item.rank < members && item.id != 0);
    fusion_.push(message.ready, now_);
    schedule plan;
    plan.assignments = message.assignments;
    plan.forget = message.forget;
    plan.retract = message.retract;
    plan.failures = message.failures;
    plan.absent = message.absent;
    plan.joined = message.joined;
    plan.changed = message.changed;
    plan.sets = message.sets;
    plan.restarts = message.restarts;
    plan.dissolved = message.dissolved;
    plan.buckets = message.buckets;
    plan.results = message.results;
    plan.end = message.end;
    plan.departed = message.departed;
    plan.bundles = fusion_.flush();
    if (!plan.empty())
      heard(plan);
  }

  void heard(const schedule& message) {
    const auto sent = messages_of(address{1, 0, 0}, message);
    require(sent.size() == 1);
    const auto read = decode_schedule(sent[0], members);
    require(read && *read == message);
    for (const auto& item : read->assignments)
      if (item.name == fresh)
        fresh_id_ = item.id;
    for (const auto& moved : read->bundles)
      for (const auto& entry : moved.entries)
        fresh_moves_ += entry.name == fresh || (fresh_id_ != 0 && entry.id == fresh_id_);
    relay_.apply_schedule(*read);
  }

  // ---- members that follow the rules -------------------------------------------------------------

  /// All members request the same ids, so that tensors repeat and buckets are planned.
  void all_members_ask_for_id() {
    requests message;
    for (auto count = 1 + input_.below(4); count > 0; --count)
      message.ids.push_back(random_id());
    if (!relayed() && input_.one_in(2))
      add_value(message, message.ids.front());
    ask_all(message);
  }

  void ask_all(const requests& message) {
    for (std::int32_t rank = 0; rank < (relayed() ? relay_rank : members); ++rank)
      to_leader(rank, message);
    if (!relayed())
      return;
    for (std::int32_t rank : {2, 3})
      to_relay(rank, message);
    gathered below;
    if (!message.ids.empty())
      below.ids.push_back({message.ids, {}});
    for (const auto& item : message.full)
      below.full.push_back({item, {}});
    to_relay(below);
    now_ += 100us;
    relay_due();
  }

  void all_members_ask() {
    request wanted;
    wanted.name = fresh;
    wanted.signature.shape = {7};
    requests message;
    message.full = {wanted};
    ask_all(message);
    now_ += 1s;
    if (relayed())
      relay_due();
    // The tensor may get an id that some members have requested before, and then seems to be requested again.
    require(fresh_moves_ >= 1 || broken_ || leader_.ended());
    for (const auto& late : leader_.stalled(now_ + 1s, 1ms))
      for (const auto rank : late.missing)
        require(rank >= 0 && rank < members);
  }

  static constexpr const char* fresh = "a tensor that nobody knows yet";

  choices& input_;
  negotiation_options options_;
  negotiation leader_;
  relay relay_;
  inline_reduction inline_;
  fusion fusion_{fusion_options{}};
  std::chrono::nanoseconds now_ = 1s;
  bool broken_ = false; ///< a member has broken a rule, so the generation would end
  bool joins_ = false;  ///< a member has joined
  std::uint32_t fresh_id_ = 0;
  int fresh_moves_ = 0;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  choices input{{data, size}};
  job(input).run();
  return 0;
}
