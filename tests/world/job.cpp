#include "tests/world/job.hpp"

#include <numeric>

#include "actors/interfaces/generation.hpp"
#include "actors/interfaces/stalls.hpp"
#include "actors/process_set/fusion_scheduler.hpp"
#include "actors/process_set/negotiator.hpp"
#include "actors/process_set/relay_actor.hpp"
#include "elastic/stall_text.hpp"
#include "tests/world/player.hpp"
#include "tests/world/simulation.hpp"

namespace farandole::testing {

namespace {

relay_tree tree_of(const job_options& options) {
  if (options.host_ranks == 0)
    return relay_tree(options.members);
  std::vector<std::string> names;
  for (std::int32_t rank = 0; rank < options.members; ++rank)
    names.push_back("host" + std::to_string(rank / options.host_ranks));
  const std::vector<std::string_view> hosts(names.begin(), names.end());
  return relay_tree(hosts, {1, options.fan_in});
}

/// The actors of one job.
class job {
public:
  explicit job(const job_options& options)
      : play_(options), log_(options.members), world_(options.seed), tree_(tree_of(options)),
        network_(options, tree_, log_), stage_{play_, log_, fusion_scheduler_actor{}} {
    auto& system = world_.system();
    router_ = system.spawn([this](caf::event_based_actor* self) { return network_.behavior(self); });
    watcher_ = system.spawn([this](caf::event_based_actor* self) { return watch(self); });
    start_leader();
    line_ends ends{caf::actor_cast<envelope_actor>(negotiator_), {}, {}};
    for (std::int32_t rank = 0; rank < options.members; ++rank) {
      players_.push_back(std::make_unique<player>(system, stage_, rank, router_, watcher_));
      ends.workers.push_back(caf::actor_cast<envelope_actor>(players_.back()->worker()));
      ends.relays.push_back(start_relay(rank));
    }
    relays_ = ends.relays;
    network_.connect(std::move(ends));
  }

  ~job() {
    for (auto& player : players_)
      player->stop();
    network_.disconnect();
    for (const auto& actor : {router_, watcher_, caf::actor_cast<caf::actor>(negotiator_),
                              caf::actor_cast<caf::actor>(stage_.scheduler)})
      caf::anon_send_exit(actor, caf::exit_reason::kill);
    for (const auto& relay : relays_)
      if (relay)
        caf::anon_send_exit(relay, caf::exit_reason::kill);
    relays_.clear();
    negotiator_ = nullptr;
    stage_.scheduler = nullptr;
    router_ = watcher_ = nullptr;
    world_.run_until_idle();
  }

  job_report run() {
    world_.step_limit(200'000'000);
    const auto begin = world_.now();
    stage_.entered = [this](std::int32_t step) { entered(step); };
    for (auto& player : players_)
      player->start();
    if (!world_.run_until_idle())
      log_.problem("the job does not become idle");
    finish();
    job_report report;
    report.problems = log_.problems();
    report.trace = world_.trace_hash();
    report.sequence = log_.hash();
    report.bundles = log_.bundles();
    report.sent = network_.counted();
    report.ended_well = log_.count(error_kind::none);
    report.disagreed = log_.count(error_kind::mismatch) + log_.count(error_kind::precondition);
    report.taken_back = log_.count(error_kind::aborted);
    report.without_result = stage_.without_result;
    report.as_rows = stage_.as_rows;
    report.steps = world_.steps();
    report.lasted = world_.now() - begin;
    report.warm = warm_;
    return report;
  }

private:
  void start_leader() {
    const auto& options = play_.options();
    fusion_options bundling;
    bundling.threshold_bytes = options.fusion_threshold;
    bundling.outstanding = options.outstanding;
    bundling.cycle_time = std::chrono::microseconds(options.cycle_time_us);
    bundling.groups_alone = options.groups_alone;
    negotiation_options rules;
    rules.members.resize(static_cast<std::size_t>(options.members));
    std::iota(rules.members.begin(), rules.members.end(), 0);
    rules.cache_capacity = options.cache_capacity;
    rules.branches = branches_of(0);
    rules.buckets = options.buckets;
    const leader_setup setup{1, 0, 0};
    stage_.scheduler =
        world_.system().spawn(fusion_scheduler, setup, bundling, caf::actor_cast<envelope_actor>(router_));
    negotiator_ = world_.system().spawn(negotiator, setup, rules, stage_.scheduler,
                                        caf::actor_cast<member_watcher_actor>(watcher_));
    if (options.measured) {
      world_.watch(caf::actor_cast<caf::actor>(stage_.scheduler));
      world_.watch(caf::actor_cast<caf::actor>(negotiator_));
    }
  }

  // Subtracts the counters at the first warm step, and adds them at the last.
  void entered(std::int32_t step) {
    constexpr std::int32_t first = 2;
    const auto last = play_.steps() - 1;
    if (step != first && step != last)
      return;
    const auto& sent = network_.counted();
    const auto add = [&](message_count& to, const message_count& current) {
      to = {current.messages - to.messages, current.bytes - to.bytes};
    };
    add(warm_.to_leader, sent.to_leader);
    add(warm_.from_leader, sent.from_leader);
    warm_.busy = world_.watched_time() + sent.parsing - warm_.busy;
    warm_.lasted = world_.now().time_since_epoch() - warm_.lasted;
    warm_.steps = last - first;
  }

  std::vector<relay_branch> branches_of(std::int32_t rank) const {
    std::vector<relay_branch> branches;
    for (auto child : tree_.children(rank))
      if (!tree_.children(child).empty())
        branches.push_back({child, tree_.subtree(child)});
    return branches;
  }

  envelope_actor start_relay(std::int32_t rank) {
    if (rank == 0 || tree_.children(rank).empty())
      return {};
    relay_actor_setup setup;
    setup.self = {1, 0, rank};
    setup.members = play_.options().members;
    setup.rules.ranks = tree_.subtree(rank);
    setup.rules.branches = branches_of(rank);
    setup.router = caf::actor_cast<envelope_actor>(router_);
    setup.watcher = caf::actor_cast<member_watcher_actor>(watcher_);
    return caf::actor_cast<envelope_actor>(world_.system().spawn(relay_behaviour, std::move(setup)));
  }

  caf::behavior watch(caf::event_based_actor* self) {
    return {
        [this](const member_fault& fault) {
          log_.problem("the leader reports a faulty member: " + fault.reason);
        },
        [this](const generation_broken& broken) {
          log_.problem("a member declared its generation broken: " + broken.reason);
        },
        [this](const generation_ended& event) { ended_by(event); },
    };
  }

  // All members must learn of the same member and its last words.
  void ended_by(const generation_ended& event) {
    ++over_;
    if (!departed_)
      departed_ = event.departed;
    const auto rank = event.departed.rank;
    const bool left = rank == 0 || rank == play_.options().members - 1;
    if (!left || event.departed.manner != last_words_of(rank) || event.departed != *departed_)
      log_.problem("a member was told that rank " + std::to_string(rank) + " " +
                   event.departed.manner.text() + ", and another member that rank " +
                   std::to_string(departed_->rank) + " " + departed_->manner.text());
  }

  static departure last_words_of(std::int32_t rank) {
    return {departure_kind::uncaught_exception, "ValueError: " + std::to_string(rank), 7};
  }

  // All members must have completed the script; then two members leave, and all members must learn of the
  // first.
  void finish() {
    const auto members = play_.options().members;
    if (stage_.finished != members) {
      log_.problem(std::to_string(members - stage_.finished) + " members did not complete the script");
      report_stalls();
    }
    if (!log_.complete())
      log_.problem("some members did not run all bundles");
    for (const auto rank : {members - 1, 0})
      caf::anon_send(players_[static_cast<std::size_t>(rank)]->worker(), leave_request{last_words_of(rank)});
    if (!world_.run_until_idle() || over_ != members)
      log_.problem(std::to_string(over_) + " of " + std::to_string(members) +
                   " members learned that the generation ended");
  }

  void report_stalls() {
    caf::scoped_actor asking(world_.system());
    asking->send(negotiator_, stalled_atom::value, std::chrono::nanoseconds(-1));
    world_.run_until_idle();
    if (!asking->has_next_message())
      return;
    asking->receive([this](const stall_list& late) { log_.problem(describe(late.stalls, {})); });
  }

  script play_;
  chronicle log_;
  simulation world_;
  relay_tree tree_;
  network network_;
  stage stage_;
  caf::actor router_;
  caf::actor watcher_;
  negotiator_actor negotiator_;
  std::vector<std::unique_ptr<player>> players_;
  std::vector<envelope_actor> relays_;
  warm_steps warm_;
  std::int32_t over_ = 0;
  std::optional<departed_member> departed_; ///< the first report
};

} // namespace

job_report run_job(const job_options& options) {
  return job(options).run();
}

} // namespace farandole::testing
