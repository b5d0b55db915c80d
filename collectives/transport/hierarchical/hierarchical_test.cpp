// The hierarchical path between real processes. The test assigns each process to a host by name.
#include "collectives/transport/hierarchical/hierarchical.hpp"
#include "collectives/transport/tcp/tcp_path.hpp"

#include <signal.h>

#include <catch2/catch.hpp>

#include <chrono>
#include <random>
#include <thread>

#include "collectives/math/reduce.hpp"
#include "collectives/transport/adasum_testing.hpp"
#include "collectives/transport/forked_testing.hpp"
#include "collectives/transport/paths_testing.hpp"
#include "collectives/transport/solo.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

path_options two_levels() {
  path_options options;
  options.secret = "secret";
  options.chunk_bytes = std::size_t{256} << 10;
  options.wishes.hierarchical_allreduce = true;
  options.wishes.hierarchical_allgather = true;
  return options;
}

/// The elements depend on the arguments only, so every member computes the same ones.
bytes contents(dtype type, std::size_t count, std::size_t rank, std::size_t part) {
  std::mt19937 random(static_cast<unsigned>(rank * 1000 + part));
  return random_elements(type, count, random);
}

struct recipe {
  dtype type = dtype::float32;
  reduce_op op = reduce_op::sum;
  std::vector<std::size_t> counts{};
  bool in_place = false;
  double prescale = 1.0;
  double postscale = 1.0;
  std::size_t joined = SIZE_MAX; ///< this member contributes nothing
};

bytes reduced(const recipe& recipe, reduce_op op, const std::vector<bytes>& inputs, double prescale,
              double postscale, std::size_t divisor) {
  std::vector<const std::byte*> pointers;
  for (const auto& input : inputs)
    pointers.push_back(input.data());
  bytes result(inputs[0].size());
  reduce(recipe.type, op, result.data(), pointers, result.size() / size_of(recipe.type), prescale, postscale,
         divisor);
  return result;
}

/// The expected result: a reduction for each host, and then one over the hosts.
bytes by_levels(const recipe& recipe, const std::vector<bytes>& inputs, const hierarchy& topology) {
  const std::size_t members = inputs.size();
  if (needs_all_inputs(recipe.type, recipe.op))
    return reduced(recipe, recipe.op, inputs, recipe.prescale, recipe.postscale, members);
  const bool adds = recipe.op == reduce_op::sum || recipe.op == reduce_op::average;
  const bool early = (recipe.type == dtype::float16 || recipe.type == dtype::bfloat16) && adds;
  const reduce_op plain = adds ? reduce_op::sum : recipe.op;
  std::vector<bytes> hosts;
  for (const auto& host : topology.hosts) {
    std::vector<bytes> bytes_list;
    for (const auto rank : host)
      bytes_list.push_back(inputs[static_cast<std::size_t>(rank)]);
    hosts.push_back(reduced(recipe, early ? recipe.op : plain, bytes_list, recipe.prescale,
                            early ? recipe.postscale : 1.0, members));
  }
  return reduced(recipe, early ? plain : recipe.op, hosts, 1.0, early ? 1.0 : recipe.postscale, members);
}

std::string allreduce(forked_member& self, const recipe& recipe) {
  std::vector<bytes> inputs, outputs, wanted;
  const bool absent = self.rank() == recipe.joined;
  work bundle;
  bundle.dtype = recipe.type;
  bundle.reduce_op = recipe.op;
  bundle.prescale = recipe.prescale;
  bundle.postscale = recipe.postscale;
  for (std::size_t at = 0; at < recipe.counts.size(); ++at) {
    std::vector<bytes> all;
    for (std::size_t rank = 0; rank < self.size(); ++rank) {
      all.push_back(contents(recipe.type, recipe.counts[at], rank, at));
      if (rank == recipe.joined)
        fill_neutral(recipe.type, recipe.op, all.back().data(), recipe.counts[at]);
    }
    wanted.push_back(by_levels(recipe, all, self.set.hierarchy()));
    inputs.push_back(all[self.rank()]);
    outputs.emplace_back(inputs.back().size());
  }
  for (std::size_t at = 0; at < inputs.size(); ++at)
    bundle.parts.push_back({absent ? nullptr : inputs[at].data(),
                            absent ? nullptr : (recipe.in_place ? inputs : outputs)[at].data(),
                            inputs[at].size(),
                            {}});
  if (const error problem = self.run(bundle))
    return problem.text;
  if (!absent && (recipe.in_place ? inputs : outputs) != wanted)
    return "allreduce of " + std::string(to_string(recipe.type)) + " differs; ";
  return {};
}

std::string allgather(forked_member& self, const std::vector<std::vector<std::size_t>>& lengths) {
  work bundle;
  bundle.operation = operation::allgather;
  bundle.dtype = dtype::uint8;
  std::vector<bytes> inputs, outputs, wanted;
  for (std::size_t at = 0; at < lengths.size(); ++at) {
    wanted.emplace_back();
    for (std::size_t rank = 0; rank < self.size(); ++rank) {
      const bytes rows = contents(dtype::uint8, lengths[at][rank], rank, at);
      wanted.back().insert(wanted.back().end(), rows.begin(), rows.end());
      bundle.gathered.push_back(rows.size());
      if (rank == self.rank())
        inputs.push_back(rows);
    }
    outputs.emplace_back(wanted.back().size());
  }
  for (std::size_t at = 0; at < lengths.size(); ++at)
    bundle.parts.push_back({inputs[at].data(), outputs[at].data(), inputs[at].size(), {}});
  if (const error problem = self.run(bundle))
    return problem.text;
  return outputs == wanted ? "" : "allgather differs; ";
}

const std::vector<std::vector<std::string>> layouts = {
    {"a", "a", "b", "b"}, {"a", "b", "a", "b"}, {"a", "a", "b"}, {"a", "b", "c", "b", "b", "a"}};

} // namespace

TEST_CASE(
    "hierarchical: every member gets the bits of the hosts' reductions, reduced in the order of hosts") {
  const auto hosts = layouts[GENERATE(range(0, 4))];
  forked_members members(hosts, two_levels(), [](forked_member& self) {
    work probe;
    if (self.paths->choose(probe).name() != "hierarchical")
      return std::string("another path");
    std::string problem;
    for (const auto& counts : std::vector<std::vector<std::size_t>>{{0},
                                                                    {1},
                                                                    {1000},
                                                                    {800'000},
                                                                    {5, 0, 1, 90'000, 2, 300'000, 7},
                                                                    std::vector<std::size_t>(500, 256)})
      for (const bool in_place : {false, true}) {
        problem += allreduce(self, {dtype::float32, reduce_op::sum, counts, in_place});
        problem += allreduce(self, {dtype::bfloat16, reduce_op::average, counts, in_place});
      }
    for (const dtype type : {dtype::uint8, dtype::int64, dtype::float16, dtype::float64})
      for (const reduce_op op : {reduce_op::min, reduce_op::max, reduce_op::average})
        problem += allreduce(self, {type, op, {3, 50'000}, true, 0.5, 2.0});
    for (const std::size_t joined : {std::size_t{0}, self.size() - 1})
      for (const reduce_op op : {reduce_op::sum, reduce_op::max})
        problem += allreduce(self, {dtype::float32, op, {9, 700'000}, false, 1.0, 0.5, joined});
    std::vector<std::vector<std::size_t>> lengths(3);
    for (std::size_t rank = 0; rank < self.size(); ++rank) {
      lengths[0].push_back(rank * 5);
      lengths[1].push_back(rank % 2 == 0 ? 0 : 1'500'000);
      lengths[2].push_back(100'000 * (rank + 1));
    }
    for (const auto& length : lengths)
      problem += allgather(self, {length});
    problem += allgather(self, lengths);
    problem += allgather(self, {std::vector<std::size_t>(self.size(), 0)});
    work barrier;
    barrier.operation = operation::barrier;
    return problem + self.run(barrier).text;
  });
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    CHECK(members.hear(rank) == "");
}

namespace {

std::string adaptive_sum(forked_member& self, const adasum_recipe& recipe, bool in_place,
                         std::int32_t joined = -1) {
  const auto rank = static_cast<std::int32_t>(self.rank());
  auto inputs = recipe.inputs(rank), outputs = inputs;
  work bundle = recipe.bundle(in_place ? outputs : inputs, outputs);
  if (rank == joined)
    for (part& part : bundle.parts)
      part = {nullptr, nullptr, part.input_bytes, {}};
  if (const error problem = self.run(bundle))
    return problem.text;
  if (rank == joined)
    return "";
  if (!in_place && inputs != recipe.inputs(rank))
    return "the inputs have changed; ";
  const auto wanted = adasum_host(static_cast<std::uint32_t>(self.size())).run(recipe, false, joined);
  return outputs == wanted[self.rank()] ? "" : "not what the local path makes of it; ";
}

} // namespace

TEST_CASE("hierarchical: Adasum gives the same bits as the local path for every layout of hosts") {
  const auto& [hosts, name] = GENERATE(table<std::vector<std::string>, std::string>(
      {{{"a", "a", "b", "b"}, "hierarchical"},
       {{"a", "b", "a", "b"}, "hierarchical"},
       {{"a", "a", "b", "b", "a", "a", "b", "b"}, "hierarchical"},
       {{"a", "b", "b", "a"}, "tcp"}}));
  forked_members members(hosts, two_levels(), [&name = name](forked_member& self) {
    work probe;
    probe.reduce_op = reduce_op::adasum;
    if (self.paths->choose(probe).name() != name)
      return std::string("another path");
    std::string problem;
    for (const auto& counts : adasum_counts)
      problem += adaptive_sum(self, {dtype::float32, counts}, counts.size() > 1);
    for (const dtype type : {dtype::float16, dtype::bfloat16, dtype::float64})
      problem += adaptive_sum(self, {type, {70'001, 1}, 0.5, 3.0}, true);
    problem += adaptive_sum(self, {dtype::float32, {9, 2000}}, false, 1);
    // Other operations work after it.
    problem += allreduce(self, {dtype::float32, reduce_op::sum, {5000}});
    problem += adaptive_sum(self, {dtype::float32, {3000}}, false);
    work barrier;
    barrier.operation = operation::barrier;
    return problem + self.run(barrier).text;
  });
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    CHECK(members.hear(rank) == "");
}

TEST_CASE("hierarchical: an average of large half floats does not overflow in an intermediate result") {
  forked_members members(layouts[0], two_levels(), [](forked_member& self) {
    const std::uint16_t large = 0x7b00; // 57344
    std::vector<std::uint16_t> tensor(1000, large);
    auto* memory = reinterpret_cast<std::byte*>(tensor.data());
    work bundle;
    bundle.dtype = dtype::float16;
    bundle.reduce_op = reduce_op::average;
    bundle.parts.push_back({memory, memory, tensor.size() * 2, {}});
    if (const error problem = self.run(bundle))
      return problem.text;
    return std::string(tensor == std::vector<std::uint16_t>(1000, large) ? "" : "overflow");
  });
  for (std::size_t rank = 0; rank < 4; ++rank)
    CHECK(members.hear(rank) == "");
}

TEST_CASE("hierarchical: an average of integers whose sum does not fit into them is right") {
  forked_members members(layouts[2], two_levels(), [](forked_member& self) {
    std::vector<std::int8_t> tensor(1000, 100);
    auto* memory = reinterpret_cast<std::byte*>(tensor.data());
    work bundle;
    bundle.dtype = dtype::int8;
    bundle.reduce_op = reduce_op::average;
    bundle.parts.push_back({memory, memory, tensor.size(), {}});
    if (const error problem = self.run(bundle))
      return problem.text;
    return std::string(tensor == std::vector<std::int8_t>(1000, 100) ? "" : "overflow");
  });
  for (std::size_t rank = 0; rank < layouts[2].size(); ++rank)
    CHECK(members.hear(rank) == "");
}

namespace {

/// Runs an operation twice, and returns the kinds of both errors. Returns another text if its memory changes
/// between the return and the parent's next word.
std::string ended(forked_member& self, operation op) {
  bytes input = contents(dtype::float32, 800'000, self.rank(), 0), output(input.size() * self.size());
  work bundle;
  bundle.operation = op;
  bundle.parts.push_back(
      {input.data(), op == operation::allreduce ? input.data() : output.data(), input.size(), {}});
  if (op == operation::allgather)
    bundle.gathered.assign(self.size(), input.size());
  std::thread raiser([&self] {
    self.hear();
    self.abort.raise();
  });
  const error problem = self.run(bundle);
  const bytes input_then = input, output_then = output;
  self.say("returned");
  raiser.join();
  self.hear();
  if (input != input_then || output != output_then)
    return "touched after the return";
  return std::string(to_string(problem.kind)) + ", then " + std::string(to_string(self.run(bundle).kind));
}

} // namespace

TEST_CASE("hierarchical: after a member's death an abort ends the waits of the others and no memory changes "
          "later") {
  const auto op = GENERATE(operation::allreduce, operation::allgather);
  const std::size_t dead = GENERATE(0u, 3u);
  forked_members members(layouts[0], two_levels(), [op, dead](forked_member& self) {
    if (std::string problem = allreduce(self, {dtype::float32, reduce_op::sum, {700'000}}); !problem.empty())
      return problem;
    if (self.rank() == dead)
      ::kill(::getpid(), SIGKILL);
    return ended(self, op);
  });
  CHECK(members.hear(dead) == "(dead)");
  std::vector<std::size_t> survivors;
  for (std::size_t rank = 0; rank < 4; ++rank)
    if (rank != dead)
      survivors.push_back(rank);
  for (const auto rank : survivors)
    members.tell(rank, "abort");
  for (const auto rank : survivors)
    CHECK(members.hear(rank) == "returned");
  for (const auto rank : survivors)
    members.tell(rank, "look");
  const std::string wanted(to_string(error_kind::disconnected));
  for (const auto rank : survivors)
    CHECK(members.hear(rank) == wanted + ", then " + wanted);
}

namespace {

/// The path inside a host of one member. It calls `event` before the operation with the given number.
class eventful_host : public path {
public:
  eventful_host(int number, std::function<error()> event) : left_(number), event_(std::move(event)) {}
  std::string_view name() const override { return "eventful"; }
  outcome run(const work& bundle, const deadline_and_abort& deadline) override {
    if (left_-- == 0)
      if (error problem = event_())
        return {problem};
    return solo_.run(bundle, deadline);
  }

private:
  int left_;
  std::function<error()> event_;
  solo_path solo_;
};

/// Runs one large operation on hosts of one member; `event` is called on rank 1 in the middle of it.
std::string interrupted(forked_member& self, operation op, const std::function<error()>& event) {
  auto cross_host_group = open_tcp_path({});
  if (!cross_host_group)
    return cross_host_group.error().text;
  self.say((*cross_host_group)->address());
  std::vector<std::string> addresses(self.size());
  for (auto& address : addresses)
    address = self.hear();
  if (const error problem = (*cross_host_group)->connect(addresses, self.set.rank, self.deadline()))
    return problem.text;
  auto host = std::make_unique<eventful_host>(self.rank() == 1 ? 5 : -1, event);
  hierarchical_path levels(self.set.hierarchy(), std::move(host), std::move(*cross_host_group));
  bytes input = contents(dtype::float32, 1'500'000, self.rank(), 0), output(input.size() * self.size());
  work bundle;
  bundle.operation = op;
  bundle.parts.push_back(
      {input.data(), op == operation::allreduce ? input.data() : output.data(), input.size(), {}});
  if (op == operation::allgather)
    bundle.gathered.assign(self.size(), input.size());
  const error problem = levels.run(bundle, self.deadline()).error;
  const bytes input_then = input, output_then = output;
  self.say("returned");
  self.hear(); // returns after all other members have returned
  if (input != input_then || output != output_then)
    return "touched after the return";
  return std::string(to_string(problem.kind)) + ": " + problem.text;
}

/// Passes the addresses of the cross-host groups between the members.
void exchange_addresses_across_hosts(forked_members& members, std::size_t size) {
  std::vector<std::string> addresses;
  for (std::size_t rank = 0; rank < size; ++rank)
    addresses.push_back(members.hear(rank));
  for (std::size_t rank = 0; rank < size; ++rank)
    for (const auto& address : addresses)
      members.tell(rank, address);
}

} // namespace

TEST_CASE("hierarchical: a host that gives up between two pieces ends its cross-host group and no memory "
          "changes later") {
  const auto op = GENERATE(operation::allreduce, operation::allgather);
  forked_members members({"a", "b", "c"}, {}, [op](forked_member& self) {
    return interrupted(self, op, [] { return error{error_kind::disconnected, "the group has changed"}; });
  });
  exchange_addresses_across_hosts(members, 3);
  for (std::size_t rank = 0; rank < 3; ++rank)
    CHECK(members.hear(rank) == "returned");
  for (std::size_t rank = 0; rank < 3; ++rank)
    members.tell(rank, "look");
  const std::string disconnected(to_string(error_kind::disconnected));
  CHECK(members.hear(1) == disconnected + ": hierarchical, on this host: the group has changed");
  for (const std::size_t other : {0, 2})
    CHECK_THAT(members.hear(other), Catch::StartsWith(disconnected) && Catch::Contains("rank 1 is lost"));
}

TEST_CASE("hierarchical: errors in the cross-host group name a member killed between two pieces") {
  const auto op = GENERATE(operation::allreduce, operation::allgather);
  forked_members members({"a", "b", "c"}, {}, [op](forked_member& self) {
    return interrupted(self, op, [] {
      ::kill(::getpid(), SIGKILL);
      return error{};
    });
  });
  exchange_addresses_across_hosts(members, 3);
  CHECK(members.hear(1) == "(dead)");
  for (const std::size_t other : {0, 2})
    CHECK(members.hear(other) == "returned");
  for (const std::size_t other : {0, 2}) {
    members.tell(other, "look");
    CHECK_THAT(members.hear(other), Catch::StartsWith(std::string(to_string(error_kind::disconnected))) &&
                                        Catch::Contains("rank 1"));
  }
}

namespace {

/// A level that waits for the other members for as long as told.
class waiting_path : public path {
public:
  explicit waiting_path(std::chrono::nanoseconds waits) : waits_(waits) {}
  std::string_view name() const override { return "waiting"; }
  outcome run(const work& bundle, const deadline_and_abort& deadline) override { return {{}, waits_}; }

private:
  std::chrono::nanoseconds waits_;
};

} // namespace

TEST_CASE("hierarchical: the time of waiting is the sum over the runs of all levels") {
  // The second host has one member more, which takes part on its own host only: before and after the cross-host group.
  hierarchical_path both(hierarchy::of(std::vector<std::string>{"a", "b", "b"}, 2),
                         std::make_unique<waiting_path>(3ms), nullptr);
  std::vector<float> values(4);
  work bundle;
  bundle.parts.push_back({reinterpret_cast<const std::byte*>(values.data()),
                          reinterpret_cast<std::byte*>(values.data()), sizeof(float) * values.size()});
  const abort_token abort;
  for (int run = 0; run < 2; ++run) {
    const auto result = both.run(bundle, {abort, std::chrono::steady_clock::now() + 1min, "a limit"});
    CHECK_FALSE(result.error);
    CHECK(result.waited == 6ms);
  }
}
