// oneCCL's collectives between real processes, through the module's table, which is loaded like a plugin.
#include <catch2/catch.hpp>

#include <numeric>

#include "collectives/math/reduce.hpp"
#include "collectives/transport/ccl/ccl_library.hpp"
#include "collectives/transport/forked_testing.hpp"
#include "collectives/transport/paths_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

path_options oneccl() {
  path_options options;
  options.wishes.forced = "plugin";
  options.plugin_library = *find_ccl_module();
  return options;
}

/// Small whole numbers, whose sum is exact in every type and every order.
bytes contents(dtype type, std::size_t count, std::size_t rank) {
  bytes ones(count * size_of(type)), result(ones.size());
  fill_neutral(type, reduce_op::product, ones.data(), count);
  for (std::size_t at = 0; at < count; ++at) {
    const std::byte* values = ones.data() + at * size_of(type);
    reduce(type, reduce_op::sum, result.data() + at * size_of(type), {{values}}, 1,
           static_cast<double>(1 + (at + rank) % 5), 1.0, 1);
  }
  return result;
}

struct reduction {
  reduce_op op = reduce_op::sum;
  double prescale = 1.0;
  double postscale = 1.0;
};

work allreduce_of(bytes& tensor, dtype type, const reduction& variant = {}) {
  work bundle;
  bundle.operation = operation::allreduce;
  bundle.dtype = type;
  bundle.reduce_op = variant.op;
  bundle.prescale = variant.prescale;
  bundle.postscale = variant.postscale;
  bundle.parts.push_back({tensor.data(), tensor.data(), tensor.size(), {}});
  return bundle;
}

bytes reduced(std::size_t members, dtype type, std::size_t count, const reduction& variant) {
  std::vector<bytes> all;
  std::vector<const std::byte*> pointers;
  for (std::size_t rank = 0; rank < members; ++rank)
    all.push_back(contents(type, count, rank));
  for (const auto& values : all)
    pointers.push_back(values.data());
  bytes result(all.front().size());
  reduce(type, variant.op, result.data(), pointers, count, variant.prescale, variant.postscale, members);
  return result;
}

std::string reduces(forked_member& self) {
  constexpr std::size_t count = 1001;
  for (std::size_t type = 0; type < dtype_count; ++type)
    for (const reduction& variant :
         {reduction{}, reduction{reduce_op::min}, reduction{reduce_op::max}, reduction{reduce_op::product},
          reduction{reduce_op::average}, reduction{reduce_op::sum, 2.0, 0.5}}) {
      const auto of = static_cast<dtype>(type);
      if (of == dtype::boolean)
        continue;
      bytes tensor = contents(of, count, self.rank());
      work bundle = allreduce_of(tensor, of, variant);
      if (self.paths->choose(bundle).name() != "oneCCL")
        return "it goes by another path";
      if (const error problem = self.run(bundle))
        return problem.text;
      if (tensor != reduced(self.size(), of, count, variant))
        return std::string(to_string(variant.op)) + " of " + std::string(to_string(of)) + " differs";
    }
  return "";
}

/// An allreduce of two parts, of which the second is larger than a message, while one member has joined.
std::string reduces_without_joined_member(forked_member& self) {
  constexpr std::size_t small = 3, large = 300'000;
  const bool joined = self.rank() == 1;
  bytes first = contents(dtype::float32, small, self.rank());
  bytes second = contents(dtype::float32, large, self.rank());
  work bundle = allreduce_of(first, dtype::float32);
  bundle.parts.push_back({second.data(), second.data(), second.size(), {}});
  if (joined)
    for (auto& values : bundle.parts)
      values.input = values.output = nullptr;
  if (const error problem = self.run(bundle))
    return problem.text;
  if (joined)
    return "";
  for (const auto& [tensor, count] : {std::pair(&first, small), std::pair(&second, large)}) {
    bytes expected(tensor->size());
    std::vector<bytes> all;
    std::vector<const std::byte*> pointers;
    for (std::size_t rank = 0; rank < self.size(); ++rank)
      if (rank != 1)
        all.push_back(contents(dtype::float32, count, rank));
    for (const auto& values : all)
      pointers.push_back(values.data());
    reduce(dtype::float32, reduce_op::sum, expected.data(), pointers, count, 1.0, 1.0, self.size());
    if (*tensor != expected)
      return "a sum without the member that has joined differs";
  }
  return "";
}

/// The bytes that member `from` sends to member `to`: their number and value identify both.
bytes message_between(std::size_t from, std::size_t to) {
  return bytes(from + to, static_cast<std::byte>(16 * from + to));
}

std::string exchanges(forked_member& self) {
  bytes sent_bytes, in, expected;
  work bundle;
  bundle.operation = operation::alltoall;
  bundle.dtype = dtype::uint8;
  for (std::size_t other = 0; other < self.size(); ++other) {
    const bytes own = message_between(self.rank(), other), theirs = message_between(other, self.rank());
    sent_bytes.insert(sent_bytes.end(), own.begin(), own.end());
    expected.insert(expected.end(), theirs.begin(), theirs.end());
    bundle.sent.push_back(own.size());
    bundle.received.push_back(theirs.size());
  }
  in.resize(expected.size());
  bundle.parts.push_back({sent_bytes.data(), in.data(), sent_bytes.size(), {}});
  if (const error problem = self.run(bundle))
    return problem.text;
  return in == expected ? "" : "alltoall differs";
}

/// An allgather of two parts; rank 0 contributes nothing to the first part.
std::string gathers(forked_member& self) {
  constexpr std::size_t second_bytes = 5;
  bytes first = message_between(self.rank(), 0),
        second = bytes(second_bytes, static_cast<std::byte>(self.rank()));
  bytes firsts, seconds;
  work bundle;
  bundle.operation = operation::allgather;
  bundle.dtype = dtype::uint8;
  for (std::size_t rank = 0; rank < self.size(); ++rank) {
    const bytes values = message_between(rank, 0);
    bundle.gathered.push_back(values.size());
    firsts.insert(firsts.end(), values.begin(), values.end());
    seconds.insert(seconds.end(), second_bytes, static_cast<std::byte>(rank));
  }
  bundle.gathered.insert(bundle.gathered.end(), self.size(), second_bytes);
  bytes first_in(firsts.size()), second_in(seconds.size());
  bundle.parts.push_back({first.data(), first_in.data(), first.size(), {}});
  bundle.parts.push_back({second.data(), second_in.data(), second.size(), {}});
  if (const error problem = self.run(bundle))
    return problem.text;
  return first_in == firsts && second_in == seconds ? "" : "allgather differs";
}

std::string broadcasts(forked_member& self) {
  bytes tensor = contents(dtype::int32, 100, self.rank());
  work bundle;
  bundle.operation = operation::broadcast;
  bundle.dtype = dtype::int32;
  bundle.root = 1;
  bundle.parts.push_back({tensor.data(), tensor.data(), tensor.size(), {}});
  if (const error problem = self.run(bundle))
    return problem.text;
  work barrier;
  barrier.operation = operation::barrier;
  if (const error problem = self.run(barrier))
    return problem.text;
  return tensor == contents(dtype::int32, 100, 1) ? "" : "broadcast differs";
}

} // namespace

TEST_CASE("ccl: every supported operation gives the same result as the other paths") {
  const std::vector<std::string> hosts =
      GENERATE(std::vector<std::string>{"a", "a"}, std::vector<std::string>{"a", "a", "a"});
  forked_members members(hosts, oneccl(), [](forked_member& self) -> std::string {
    for (const auto act : {reduces, reduces_without_joined_member, exchanges, gathers, broadcasts})
      if (const std::string problem = act(self); !problem.empty())
        return problem;
    return "";
  });
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    CHECK(members.hear(rank) == "");
}

TEST_CASE("ccl: Adasum is refused and later operations succeed") {
  forked_members members({"a", "a"}, oneccl(), [](forked_member& self) {
    bytes tensor = contents(dtype::float32, 8, self.rank());
    const error refused = self.run(allreduce_of(tensor, dtype::float32, {reduce_op::adasum}));
    if (refused.kind != error_kind::unimplemented || refused.text.find("no Adasum") == std::string::npos)
      return "it ended in: " + refused.text;
    return broadcasts(self);
  });
  CHECK(members.hear(0) == "");
  CHECK(members.hear(1) == "");
}

TEST_CASE("ccl: an abort, a deadline or a peer's death ends the wait, and oneCCL cannot be opened again") {
  const std::string cause = GENERATE("abort", "deadline", "death");
  forked_members members({"a", "a"}, oneccl(), [cause](forked_member& self) -> std::string {
    bytes tensor = contents(dtype::float32, 100'000, self.rank());
    work bundle = allreduce_of(tensor, dtype::float32);
    if (self.rank() == 1) {
      if (cause == "death")
        ::_exit(0);
      self.hear(); // returns after the other member has ended
      return "";
    }
    deadline_and_abort deadline = self.deadline();
    if (cause == "abort")
      self.abort.raise();
    if (cause == "deadline")
      deadline.deadline = std::chrono::steady_clock::now();
    if (cause == "death") // in case oneCCL reports no error
      deadline.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    const error problem = self.paths->choose(bundle).run(bundle, deadline).error;
    self.paths.reset();
    const auto again = data_paths::open(self.set, oneccl());
    return again ? "it is opened again" : problem.text + " / " + again.error().text;
  });
  const std::string end = members.hear(0);
  members.tell(1, "go");
  CHECK_THAT(end, Catch::StartsWith("the path oneCCL ") && Catch::Contains("start the process anew"));
  if (cause == "abort")
    CHECK_THAT(end, Catch::Contains("it was told to give up"));
  if (cause == "deadline")
    CHECK_THAT(end, Catch::Contains("patience (TEST_PATIENCE) = 240 s has passed"));
}
