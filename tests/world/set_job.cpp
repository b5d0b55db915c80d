#include "tests/world/set_job.hpp"

#include <string_view>

#include "actors/event_loop/link_messages.hpp"
#include "tests/world/set_player.hpp"
#include "tests/world/simulation.hpp"
#include "tests/world/wires.hpp"

namespace farandole::testing {

namespace {

constexpr link_id parent_link = 2; // as in the message router
constexpr link_id first_child_link = 1000;

std::vector<member> members_of(const set_options& options) {
  std::vector<member> all(static_cast<std::size_t>(options.members));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    all[rank].rank = all[rank].slot = static_cast<std::int32_t>(rank);
    const auto host = options.host_ranks == 0 ? 0 : rank / static_cast<std::size_t>(options.host_ranks);
    all[rank].host = all[rank].host_name = "host" + std::to_string(host);
  }
  return all;
}

std::shared_ptr<const relay_tree> tree_of(const set_options& options, const std::vector<member>& members) {
  if (options.host_ranks == 0)
    return std::make_shared<relay_tree>(options.members);
  std::vector<std::string_view> hosts;
  for (const auto& member : members)
    hosts.push_back(member.host);
  return std::make_shared<relay_tree>(hosts, relay_options{1, options.fan_in});
}

class set_job {
public:
  explicit set_job(const set_options& options)
      : play_(options), world_(options.seed), stage_{play_, members_of(options), nullptr} {
    stage_.tree = tree_of(options, stage_.members);
    for (std::int32_t rank = 0; rank < options.members; ++rank)
      players_.push_back(std::make_unique<set_player>(world_.system(), stage_, rank));
  }

  ~set_job() {
    for (auto& player : players_)
      player->stop();
    for (const auto& wire : wires_)
      caf::anon_send_exit(wire, caf::exit_reason::kill);
    wires_.clear();
    world_.run_until_idle();
  }

  set_report run() {
    for (std::int32_t rank = 0; rank < play_.options().members; ++rank)
      players_[static_cast<std::size_t>(rank)]->start([this, rank] { link(rank); });
    if (!world_.run_until_idle())
      stage_.problem("the job does not become idle");
    finish();
    set_report report;
    report.trace = world_.trace_hash();
    for (auto& [number, log] : stage_.logs) {
      if (!log.complete())
        stage_.problem("some members of set " + std::to_string(number) + " did not run all its bundles");
      for (const auto& problem : log.problems())
        stage_.problem("set " + std::to_string(number) + ": " + problem);
      report.sequence = dice::mixed(report.sequence ^ log.hash());
      report.ended_well += log.count(error_kind::none);
      report.taken_down += log.count(error_kind::aborted);
    }
    report.problems = stage_.problems;
    return report;
  }

private:
  // The message router of this member knows the tree by now. The parent's may not know it yet, and delivers
  // messages individually until then.
  void link(std::int32_t rank) {
    const auto parent = stage_.tree->parent(rank);
    if (parent < 0)
      return;
    auto& below = *players_[static_cast<std::size_t>(rank)];
    auto& above = *players_[static_cast<std::size_t>(parent)];
    const auto number = first_child_link + static_cast<link_id>(rank);
    const auto entry = [&](const caf::actor& taker, link_id at_taker, std::uint64_t stream) {
      wires_.push_back(wire(world_.system(), play_.options(), stream, taker, at_taker,
                            [this](std::string text) { stage_.problem(std::move(text)); }));
      return wires_.back();
    };
    const auto up = entry(above.router(), number, 2 * number);
    const auto down = entry(below.router(), parent_link, 2 * number + 1);
    caf::anon_send(above.router(), link_opened{number, down, "rank " + std::to_string(rank), true});
    caf::anon_send(below.router(), link_opened{parent_link, up, "rank " + std::to_string(parent), false});
  }

  // All members must have completed the program; then one member leaves, and all members end their sets.
  void finish() {
    const auto members = play_.options().members;
    if (stage_.finished != members)
      stage_.problem(std::to_string(members - stage_.finished) + " members did not complete the program");
    players_.back()->leave();
    if (!world_.run_until_idle() || stage_.gone != members)
      stage_.problem(std::to_string(stage_.gone) + " of " + std::to_string(members) +
                     " members ended all their sets");
  }

  set_play play_;
  simulation world_;
  set_stage stage_;
  std::vector<std::unique_ptr<set_player>> players_;
  std::vector<caf::actor> wires_;
};

} // namespace

set_report run_sets(const set_options& options) {
  return set_job(options).run();
}

} // namespace farandole::testing
