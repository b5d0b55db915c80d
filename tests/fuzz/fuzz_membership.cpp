// Feeds sequences of well-formed messages, which the input chooses, to the decisions of a rendezvous: hellos,
// farewells, reports and returns of members that follow no rule, events of their launcher, and restarts of
// the rendezvous from its journal. The rendezvous must answer only on links that have sent a message, every
// answer must be readable, a generation must have a permitted number of members, and it must include every
// waiting member that may join.
#include <map>
#include <set>

#include "elastic/drain.hpp"
#include "elastic/membership.hpp"
#include "tests/fuzz/choices.hpp"

using namespace farandole;

namespace {

constexpr std::int32_t most_slot = 5;
constexpr const char* hosts[] = {"alpha", "beta", ""};

class rendezvous {
public:
  explicit rendezvous(choices& input)
      : input_(input), rules_(rules(input)), members_(rules_, 1), image_(members_.image()),
        revision_(members_.revision()) {
    if (rules_.elastic)
      for (std::int32_t slot = 0; slot < rules_.size; ++slot)
        members_.expect(slot, "alpha");
  }

  void run() {
    for (int steps = 0; steps < 400 && !input_.done(); ++steps) {
      step();
      check_state();
    }
  }

private:
  static membership_rules rules(choices& input) {
    membership_rules made;
    const auto flags = input.byte();
    made.size = 1 + flags % 3;
    made.elastic = (flags & 4) != 0;
    made.minimum = 1 + (flags >> 3) % made.size;
    made.limit = made.elastic ? made.size + (flags >> 6) : made.size;
    return made;
  }

  void step() {
    switch (input_.below(16)) {
    case 0:
      return members_.expect(input_.below(rules_.elastic ? most_slot : rules_.size), input_.among(hosts));
    case 1:
      return obey(members_.retire(input_.below(most_slot)));
    case 2:
      return obey(input_.one_in(16) ? members_.no_more_starts() : membership_decision{});
    case 3:
      return obey(members_.exit(input_.below(most_slot), "was killed by signal 9"));
    case 4:
      return obey(members_.disconnect(any_route(), "closed its connection"));
    case 5:
      return obey(members_.give_up_waiting(any_generation()));
    case 6:
    case 7:
      return leave();
    case 8:
      return report();
    case 9:
    case 10:
      return come_back();
    case 11:
      return input_.one_in(4) ? start_again() : drain_some();
    default:
      return join();
    }
  }

  // ---- messages ------------------------------------------------------------------------------

  link_id new_route() { return next_route_++; }
  /// Usually the route of a linked member, sometimes an unknown route.
  link_id any_route() { return static_cast<link_id>(input_.byte()) % (next_route_ + 1); }
  std::uint64_t any_generation() {
    const auto wanted = input_.byte();
    return wanted < 192 ? members_.generation() : wanted % 8;
  }

  void join() {
    hello said;
    const auto kind = input_.byte();
    said.slot = kind % (most_slot + 1);
    said.size = kind < 240 ? rules_.size : 7;
    said.wire_version = kind == 255 ? 1 : wire_version;
    const auto origin = input_.byte();
    said.host = said.host_name = hosts[origin % 2];
    said.address = "10.0.0.1:99";
    said.process = 100 + said.slot + origin / 2 % 2 * 100;
    said.epoch = origin / 4 % 8 == 0 ? 0 : members_.epoch() + (origin == 255 ? 1 : 0);
    said.state_generation = (origin & 64) != 0 ? 1 : 0;
    said.keeps_sets = (origin & 128) != 0;
    said.progress = input_.below(3);
    if (said.keeps_sets)
      for (auto count = input_.below(3); count > 0; --count)
        said.sets.push_back(random_set());
    // Sometimes by a link that has already sent a message.
    const auto from = next_route_ > 1 && input_.one_in(8)
                          ? 1 + static_cast<link_id>(input_.byte()) % (next_route_ - 1)
                          : new_route();
    if (from < said_something_from_)
      return;
    if (const auto carried = decode_hello(encode(address{}, said)))
      obey(members_.join(from, *carried));
  }

  kept_set random_set() {
    kept_set made;
    made.origin = {static_cast<std::uint64_t>(input_.below(3)), input_.one_in(4),
                   static_cast<std::uint32_t>(input_.below(3))};
    made.id = 1 + static_cast<std::uint32_t>(input_.below(3));
    const auto chosen = input_.byte();
    for (std::int32_t slot = 0; slot <= most_slot; ++slot)
      if (!made.origin.by_rule && (chosen >> slot & 1) != 0)
        made.members.push_back(slot);
    return made;
  }

  void leave() { obey(members_.leave(any_route(), any_generation())); }

  void report() {
    const lost said{any_generation(), input_.below(8) - 1, "cannot be reached"};
    if (const auto carried = decode_lost(encode(address{}, said)))
      obey(members_.report(any_route(), *carried));
  }

  void come_back() {
    returning said;
    const auto kind = input_.byte();
    said.generation = any_generation();
    said.slot = kind % (most_slot + 1);
    said.rank = input_.below(4);
    said.host = hosts[kind / 8 % 2];
    said.process = 100 + said.slot + kind / 16 % 2 * 100;
    said.epoch = kind == 255 ? members_.epoch() + 1 : members_.epoch();
    said.wire_version = kind == 254 ? 1 : wire_version;
    if (const auto carried = decode_returning(encode(address{}, said)))
      obey(members_.come_back(new_route(), *carried));
  }

  void drain_some() {
    drain asked;
    for (auto count = input_.below(3); count > 0; --count)
      asked.ranks.push_back(input_.below(6) - 1);
    if (input_.one_in(2))
      asked.hosts.emplace_back(input_.among(hosts));
    const auto carried = decode_drain(encode(address{}, asked));
    if (!carried)
      return;
    std::vector<drain_candidate> workers;
    const auto& slots = members_.slots();
    for (std::size_t rank = 0; rank < slots.size(); ++rank)
      workers.push_back({{static_cast<std::int32_t>(rank), slots[rank], hosts[rank % 2]}, input_.one_in(4)});
    const auto plan = plan_drain(*carried, workers, rules_.minimum);
    require(static_cast<bool>(decode_draining(encode(address{}, plan))));
    require(plan.problem.empty() || plan.leavers.empty());
    if (members_.running() && rules_.elastic)
      for (const auto& entry : plan.leavers)
        obey(members_.retire(entry.slot));
  }

  /// The rendezvous dies, and a new one continues from its journal. All links are gone.
  void start_again() {
    const auto kept = decode_job_image(encode(members_.image()));
    require(static_cast<bool>(kept));
    members_ = membership::restored(*kept, members_.epoch() + 1);
    check_revision_ = false;
    said_something_from_ = next_route_;
  }

  // ---- results --------------------------------------------------------------------------

  void obey(const membership_decision& decision) {
    for (const auto& entry : decision.refusals) {
      require(is_known(entry.to) && !entry.reason.reason.empty());
      require(static_cast<bool>(decode_refused(encode(address{}, entry.reason))));
    }
    for (const auto& entry : decision.loss_notices) {
      require(is_known(entry.to) && entry.lost.generation <= members_.generation());
      require(static_cast<bool>(decode_lost(encode(address{}, entry.lost))));
    }
    for (const auto& entry : decision.change_notices)
      require(is_known(entry.to) && entry.changed.generation == members_.generation() &&
              entry.changed.count > 0);
    for (const auto& entry : decision.resumptions)
      require(is_known(entry.to) && entry.event.generation == members_.generation() && members_.running());
    for (const auto& entry : decision.consequences)
      require(entry.slot != entry.culprit && members_.knows(entry.slot));
    if (!decision.admissions.empty())
      check_generation(decision);
    else
      require(members_.generation() == generation_ || !check_revision_);
    generation_ = members_.generation();
  }

  bool is_known(link_id to) const { return to < next_route_ && to >= said_something_from_; }

  void check_generation(const membership_decision& decision) {
    require(members_.running() && members_.generation() == generation_ + 1);
    const auto count = static_cast<std::int32_t>(decision.admissions.size());
    require(count >= rules_.minimum && count <= rules_.limit);
    require(decision.roster.members.size() == decision.admissions.size() && decision.roster.generation > 0);
    std::set<std::int32_t> ranks;
    std::set<link_id> links;
    const auto encoded = encode(decision.roster);
    for (const auto& entry : decision.admissions) {
      require(is_known(entry.to) && links.insert(entry.to).second && ranks.insert(entry.rank).second);
      require(entry.rank >= 0 && entry.rank < count);
      const auto read = decode_welcome(encode_welcome(address{}, entry.rank, entry.joined_late, encoded));
      require(read && read->rank == entry.rank && static_cast<const roster&>(*read) == decision.roster);
      require(members_.slot_of(entry.to) ==
              decision.roster.members[static_cast<std::size_t>(entry.rank)].slot);
    }
    // Every member that waited and is still linked is in the generation, unless the generation is full.
    for (const auto& record : members_.image().slot_images)
      if (const auto waited = waited_.find(record.slot); waited != waited_.end() && !record.in_generation)
        require(count == rules_.limit || record.retired || members_.slot_of(waited->second) != record.slot);
  }

  void check_state() {
    const auto now = members_.image();
    // While the revision stays the same, so does the image.
    if (check_revision_ && members_.revision() == revision_)
      require(now == image_);
    const auto kept = decode_job_image(encode(now));
    require(kept && *kept == now);
    image_ = now;
    revision_ = members_.revision();
    check_revision_ = true;
    const auto missing = members_.missing();
    require(missing.missing.size() <= awaited_limit && missing.arrived <= missing.size);
    require(static_cast<bool>(decode_awaited(encode(address{}, missing))));
    waited_ = members_.waiting();
    require(members_.forming() == !waited_.empty());
    require(!members_.running() || std::any_of(now.slot_images.begin(), now.slot_images.end(),
                                               [](auto& record) { return record.in_generation; }));
  }

  choices& input_;
  membership_rules rules_;
  membership members_;
  job_image image_;
  std::uint64_t revision_;
  std::uint64_t generation_ = 0;
  bool check_revision_ = true;
  std::map<std::int32_t, link_id> waited_; ///< waiting members after the last step
  link_id next_route_ = 1;
  link_id said_something_from_ = 1; ///< older links ended with the previous rendezvous
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  choices input{{data, size}};
  rendezvous(input).run();
  return 0;
}
