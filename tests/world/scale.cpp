#include "tests/world/scale.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <iomanip>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "collectives/transport/connections/tls.hpp"
#include "tests/world/job.hpp"
#include "tests/world/regroup_scale.hpp"
#include "tests/world/simulation.hpp"

namespace farandole::testing {

namespace {

constexpr const char* conclusion =
    R"(
Wanted: under 1 ms a step at 4,096 ranks, however tensors are submitted. The work hardly grows with the ranks: at 512 as at
4,096 the leader hears eight relays and the one that speaks for its own host. Each says a bucket in one word, so over a
backward pass each sends three messages and gets three schedules. Without buckets each sends about 20 to 30, which is
how often one of its members submits in these 45 ms, and is answered nearly as often. What is left is mostly that the
leader turns to something else some 50 times a step: to each of these messages, its own member's, and each bundle that its
lane has finished; a machine that does something else besides makes that two or three times as long.

Steps last as long as without buckets, to a few percent: what is ready first waits for the rest of its bucket, but what is
ready last, on which the step depends, waits for nothing. (Here data takes no longer to move for being more.)
)";

constexpr const char* path_addresses =
    R"(# Negotiation at scale

What rank 0 hears, says and does in one training step once all tensors are known: 161 tensors (ResNet-50's), 8 ranks a
host, in the simulated world (`tests/world`): real workers, relays, negotiator and fusion scheduler, real messages, a
network with 50 to 150 µs each way and now and then 5 ms more. The relays are those of
[decision 0012](decisions/0012-relays.md), with the buckets of [decision 0022](decisions/0022-buckets-by-heart.md), which
have been learnt by then; "no buckets" is what `FARANDOLE_RELAY_BUCKETS=0` does, "none" what `FARANDOLE_RELAY_RANKS=0`
does.

*At once*: every rank submits all tensors together. *Backward*: one to ten at a time over about 45 ms, in the order of
the others, each rank at its own pace. *Scattered*: likewise, but each rank in an order of its own, so that nearly all
tensors are ready at the end alone.

A step lasts from the first rank's first tensor to the first rank's first of the next, in virtual time.

Time is the leader's own processor time, on the machine that wrote this page: parsing, decoding, tally, fusion and
encoding as they ran, on a thread and a core of their own beside the simulated workers', which does not halt in between,
plus TLS for every message, from the cost of sealing and opening that many records and bytes with the links' own sessions.
Reading and writing sockets is not in it.

`build/tests/world/world_test --scale > docs/scale.md` writes this page.

)";

/// What one record costs, and each byte of it, in nanoseconds.
struct tls_cost {
  double record = 0;
  double byte = 0;

  double of(const message_count& message_count) const {
    return record * static_cast<double>(message_count.messages) +
           byte * static_cast<double>(message_count.bytes);
  }
};

struct tls_costs {
  tls_cost seal;
  tls_cost open;
};

class tls_pair {
public:
  tls_pair() {
    std::vector<std::byte> plain;
    std::vector<std::byte> to_server;
    std::vector<std::byte> to_client;
    client_.feed({}, plain, to_server);
    while (client_.state() != tls_state::open || server_.state() != tls_state::open) {
      server_.feed(std::exchange(to_server, {}), plain, to_client);
      client_.feed(std::exchange(to_client, {}), plain, to_server);
    }
    server_.feed(to_server, plain, to_client);
  }

  /// Nanoseconds to seal, and to open, a message of so many bytes.
  std::pair<double, double> time(std::size_t bytes) {
    constexpr int times = 2000;
    const std::vector<std::byte> message(bytes);
    std::vector<std::byte> wire;
    std::vector<std::byte> plain;
    std::chrono::nanoseconds sealing{0};
    std::chrono::nanoseconds opening{0};
    for (int i = 0; i < times; ++i) {
      wire.clear();
      plain.clear();
      const auto begin = thread_time();
      client_.seal(message, wire);
      const auto middle = thread_time();
      std::vector<std::byte> answer;
      server_.feed(wire, plain, answer);
      sealing += middle - begin;
      opening += thread_time() - middle;
    }
    const auto entry = [](std::chrono::nanoseconds all) {
      return std::chrono::duration<double, std::nano>(all).count() / times;
    };
    return {entry(sealing), entry(opening)};
  }

private:
  std::shared_ptr<const tls_credentials> credentials_ =
      std::make_shared<tls_credentials>("a secret of the scale page");
  tls_session client_{credentials_, tls_side::client};
  tls_session server_{credentials_, tls_side::server};
};

tls_costs measured_tls() {
  constexpr std::size_t small = 256;
  constexpr std::size_t large = 16000; // within one record
  tls_pair pair;
  pair.time(small); // warm
  const auto few = pair.time(small);
  const auto many = pair.time(large);
  const auto line = [](double at_small, double at_large) {
    tls_cost cost;
    cost.byte = (at_large - at_small) / static_cast<double>(large - small);
    cost.record = at_small - cost.byte * static_cast<double>(small);
    return cost;
  };
  return {line(few.first, many.first), line(few.second, many.second)};
}

struct pace {
  const char* name;
  std::uint64_t at_once;
  std::uint64_t between_us;
  bool in_order;
};

enum class speakers : std::uint8_t { each, relays, relays_with_buckets };

job_options training(std::int32_t ranks, speakers speakers, const pace& speed) {
  job_options options;
  options.members = ranks;
  options.tensors = 161;
  options.full_steps = 6;
  options.joins = false;
  options.only_sums = true;
  options.grouped = 0;
  options.mismatches = options.withdrawals = options.changes = 0;
  options.fusion_threshold = std::size_t{128} << 20;
  options.host_ranks = speakers == speakers::each ? 0 : 8;
  options.buckets = speakers == speakers::relays_with_buckets ? job_options{}.buckets : 0;
  options.measured = true;
  options.at_once = speed.at_once;
  options.between_us = speed.between_us;
  options.in_order = speed.in_order;
  return options;
}

void write_row(std::ostream& page, std::int32_t ranks, speakers speakers, const pace& speed,
               const tls_costs& tls) {
  constexpr const char* names[] = {"none", "no buckets", "yes"};
  const auto report = run_job(training(ranks, speakers, speed));
  for (const auto& problem : report.problems)
    page << "\n**A problem**: " << problem << "\n";
  const auto& warm = report.warm;
  const auto per_step = [&](double value) { return value / warm.steps; };
  const auto count = [&](std::uint64_t value) { return per_step(static_cast<double>(value)); };
  const auto actors = per_step(static_cast<double>(warm.busy.count()));
  const auto sealed = per_step(tls.open.of(warm.to_leader) + tls.seal.of(warm.from_leader));
  page << std::fixed << std::setprecision(0) << "| " << ranks << " | " << speed.name << " | "
       << names[static_cast<std::size_t>(speakers)] << " | " << count(warm.to_leader.messages) << " | "
       << std::setprecision(1) << count(warm.to_leader.bytes) / 1024 << " | " << std::setprecision(0)
       << count(warm.from_leader.messages) << " | " << std::setprecision(1)
       << count(warm.from_leader.bytes) / 1024 << " | "
       << static_cast<double>(warm.lasted.count()) / warm.steps / 1e6 << " | " << std::setprecision(2)
       << actors / 1e6 << " | " << sealed / 1e6 << " | **" << (actors + sealed) / 1e6 << "** |" << std::endl;
}

constexpr const char* regroup_path_addresses = R"(
## A regroup

A member of an elastic job is lost, and all others say hello again: what the rendezvous does until all are welcomed. Each
welcome names all members. Parsing is in it, as above; each row is the median of five runs. Wanted: 50 ms at 512 ranks.

| ranks | hellos, KiB | welcomes, KiB | rendezvous, ms | TLS, ms | busy, ms |
| ---: | ---: | ---: | ---: | ---: | ---: |
)";

constexpr const char* regroup_conclusion = R"(
What all are told alike is made and encoded once, with each host named once; what grows with the square of the ranks is
copying those bytes into each welcome, and TLS.
)";

void write_regroup(std::ostream& page, std::int32_t ranks, const tls_costs& tls) {
  std::array<regroup_cost, 5> runs;
  for (auto& run : runs)
    run = run_regroup(ranks);
  std::nth_element(runs.begin(), runs.begin() + 2, runs.end(),
                   [](const auto& a, const auto& b) { return a.busy < b.busy; });
  const auto& cost = runs[2];
  const auto kib = [](std::uint64_t bytes) { return static_cast<double>(bytes) / 1024; };
  const auto actor = static_cast<double>(cost.busy.count());
  const auto sealed =
      tls.open.of({cost.hellos, cost.hello_bytes}) + tls.seal.of({cost.welcome_records, cost.welcome_bytes});
  page << "| " << ranks << " | " << std::fixed << std::setprecision(0) << kib(cost.hello_bytes) << " | "
       << kib(cost.welcome_bytes) << " | " << std::setprecision(1) << actor / 1e6 << " | " << sealed / 1e6
       << " | **" << (actor + sealed) / 1e6 << "** |" << std::endl;
}

} // namespace

void write_regroup_scale(std::ostream& page) {
  const auto tls = measured_tls();
  page << regroup_path_addresses;
  for (const std::int32_t ranks : {64, 512})
    write_regroup(page, ranks, tls);
  page << regroup_conclusion;
}

void write_scale(std::ostream& page) {
  const auto tls = measured_tls();
  page << path_addresses << std::fixed << std::setprecision(2) << "TLS here: sealing takes "
       << tls.seal.record / 1000 << " µs a record and " << tls.seal.byte << " ns a byte, opening "
       << tls.open.record / 1000 << " µs and " << tls.open.byte << " ns.\n\n"
       << "| ranks | submitted | relays | messages in | KiB in | messages out | KiB out | step, ms | actors, "
          "ms "
          "| TLS, ms | busy, ms |\n"
       << "| ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  const pace at_once{"at once", 1'000'000, 200, false}, backward{"backward", 10, 3000, true},
      scattered{"scattered", 10, 3000, false};
  for (const std::int32_t ranks : {64, 512, 4096})
    write_row(page, ranks, speakers::relays_with_buckets, at_once, tls);
  for (const auto& over_time : {backward, scattered})
    for (const std::int32_t ranks : {64, 512, 4096})
      write_row(page, ranks, speakers::relays_with_buckets, over_time, tls);
  for (const auto& speed : {at_once, backward})
    for (const std::int32_t ranks : {64, 512})
      write_row(page, ranks, speakers::relays, speed, tls);
  for (const std::int32_t ranks : {64, 512})
    write_row(page, ranks, speakers::each, at_once, tls);
  page << conclusion;
  write_regroup_scale(page);
}

} // namespace farandole::testing
