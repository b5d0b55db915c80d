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
The load hardly grows with the number of ranks. At 512 and at 4,096 ranks the leader receives messages from nine ranks:
eight relays, and the rank that relays for the leader's own host. A relay requests a whole bucket with one number. In a
backward pass each relay therefore sends three messages and receives three schedules. Without buckets a relay sends
about 30 messages, because one of its members submits that often within these 45 ms, and receives about 60.

Most of the remaining time is the cost of about 50 wake-ups of the leader's actors in each step: for each of these
messages, for the requests of the leader's own member, and for each bundle that its lane has completed. If the machine
runs other work at the same time, a wake-up takes two or three times as long.

In the backward rows a step lasts as long as without buckets, to within 10 %. The first tensors that become ready wait
for the rest of their bucket. The last tensors, which determine the length of the step, do not wait. The simulation does
not model bandwidth: a larger bundle takes no longer to move.
)";

constexpr const char* path_addresses =
    R"(# Negotiation at scale

This page shows the load of rank 0 in large jobs: the messages that it receives and sends in one training step, and the
processor time that it spends on them. The target is less than 1 ms per step at 4,096 ranks, in any order of submission.

To measure again and replace this page, run:

    build/tests/world/world_test --scale > docs/scale.md

## Setup

The job runs in the simulated world (`tests/world`): workers, relays, negotiator, fusion scheduler and messages are
real, and the network is simulated. A message takes 50 to 150 µs each way, and one in 50 takes up to 5 ms longer. A
step has 161 tensors (those of ResNet-50), which are all in the response cache. There are 8 ranks on each host.

The column *relays* shows the configuration:

- *yes*: relays ([decision 0012](decisions/0012-aggregate-requests-in-a-relay-tree.md)) with buckets
  ([decision 0022](decisions/0022-request-tensors-in-learned-buckets.md)), which were learnt in earlier steps
- *no buckets*: relays, with `FARANDOLE_RELAY_BUCKETS=0`
- *none*: no relays, with `FARANDOLE_RELAY_RANKS=0`

The column *submitted* shows the order in which ranks submit tensors:

- *at once*: every rank submits all tensors together
- *backward*: one to ten tensors at a time over about 45 ms, in the same order on all ranks, each rank at its own pace
- *scattered*: likewise, but each rank in its own order, so nearly all tensors become ready only at the end

A step lasts from the first tensor of the first rank to the first tensor of the first rank in the next step, in virtual
time.

The column *busy* is the processor time of the leader, on the machine that wrote this page. It is the sum of two
columns:

- *actors*: parsing, decoding, counting requests, fusion and encoding, as measured. They run on a thread and a core of
  their own, beside the simulated workers. That core does not halt between messages.
- *TLS*: the computed cost of all messages, from the measured cost of sealing and opening as many records and bytes with
  the TLS sessions of the links.

Reading from and writing to sockets is not included.

## Results

)";

/// The cost of a record and of each of its bytes, in nanoseconds.
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

  /// Nanoseconds to seal and to open a message of `bytes` bytes.
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
  pair.time(small); // warms up
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

This table shows the load of the rendezvous when an elastic job loses a worker. All other workers register again with a
`hello` message, and the rendezvous answers each of them with a `welcome` message, which lists all members. The time
includes parsing, as above. Each row is the median of five runs. The target is 50 ms at 512 ranks.

| ranks | hellos, KiB | welcomes, KiB | rendezvous, ms | TLS, ms | busy, ms |
| ---: | ---: | ---: | ---: | ---: | ---: |
)";

constexpr const char* regroup_conclusion = R"(
The rendezvous creates and encodes the part that is the same for all members once, and names each host once. Two costs
grow with the square of the number of ranks: copying these bytes into each `welcome` message, and TLS.
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
