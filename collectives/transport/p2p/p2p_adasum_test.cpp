// Adasum on the paths between hosts, with real processes: it gives the same bits as the local path, and an
// abort ends it like other operations.
#include <catch2/catch.hpp>

#include <string>
#include <thread>
#include <vector>

#include "collectives/transport/adasum_testing.hpp"
#include "collectives/transport/p2p/p2p_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

std::string adaptive_sum(member& self, std::uint64_t sequence, const adasum_recipe& recipe, bool in_place,
                         std::int32_t joined = -1) {
  auto inputs = recipe.inputs(self.rank), outputs = inputs;
  work bundle = recipe.bundle(in_place ? outputs : inputs, outputs);
  bundle.sequence = sequence;
  if (self.rank == joined)
    for (part& part : bundle.parts)
      part = {nullptr, nullptr, part.input_bytes, {}};
  if (const outcome end = self.path->run(bundle, self.deadline()); end.error)
    return end.error.text;
  if (self.rank == joined)
    return "";
  if (!in_place && inputs != recipe.inputs(self.rank))
    return "the inputs have changed";
  const auto wanted = adasum_host(static_cast<std::uint32_t>(self.size)).run(recipe, false, joined);
  return outputs == wanted[static_cast<std::size_t>(self.rank)] ? "" : "not what the local path makes of it";
}

} // namespace

TEST_CASE("between hosts, Adasum: every member gets the same bits as on the local path") {
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  const std::int32_t size = GENERATE(1, 2, 4);
  job members(between, size, [](member& self) {
    std::uint64_t sequence = 0;
    std::string problem;
    for (const auto& counts : adasum_counts)
      for (const bool in_place : {false, true}) {
        problem += adaptive_sum(self, sequence++, {dtype::float32, counts}, in_place);
        problem += adaptive_sum(self, sequence++, {dtype::bfloat16, counts, 0.5, 3.0}, in_place);
      }
    for (const dtype type : {dtype::float16, dtype::float64})
      problem += adaptive_sum(self, sequence++, {type, {70'001, 1}}, true);
    problem += adaptive_sum(self, sequence++, {dtype::float32, {9, 2000}}, false, self.size - 1);
    return problem + barrier(self, sequence++);
  });
  for (std::int32_t rank = 0; rank < size; ++rank)
    CHECK(members.hear(rank) == "");
}

TEST_CASE("between hosts, Adasum: a set of three members is refused, and the path stays usable") {
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  job members(between, 3, [](member& self) {
    const adasum_recipe recipe{dtype::float32, {10}};
    auto tensor = recipe.inputs(0);
    const outcome end = self.path->run(recipe.bundle(tensor, tensor), self.deadline());
    return std::string{to_string(end.error.kind)} + ": " + end.error.text + barrier(self, 1);
  });
  for (std::int32_t rank = 0; rank < 3; ++rank)
    CHECK(members.hear(rank) ==
          std::string{to_string(error_kind::unimplemented)} + ": " + why_no_adasum(dtype::float32, 3).text);
}

namespace {

/// One swap of four members: its phase, its number and the distance of the peer.
struct stop_case {
  const char* name;
  message_phase phase;
  std::size_t swap;
  std::int32_t distance;
};

} // namespace

TEST_CASE("between hosts, Adasum: an abort in any phase leaves the buffers unchanged after the return") {
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  const stop_case settings = GENERATE(stop_case{"first halves", message_phase::scatter, 0, 1},
                                      stop_case{"first products", message_phase::exchange, 1, 1},
                                      stop_case{"second halves", message_phase::scatter, 2, 2},
                                      stop_case{"near products", message_phase::exchange, 3, 1},
                                      stop_case{"far products", message_phase::exchange, 4, 2},
                                      stop_case{"first results", message_phase::gather, 5, 2},
                                      stop_case{"last results", message_phase::gather, 6, 1});
  CAPTURE(settings.name);
  constexpr std::int32_t aborted = 2;
  const std::int32_t frozen = aborted ^ settings.distance;
  job members(between, 4, [=](member& self) {
    // The peer stops in that swap and continues only after the aborted member has returned.
    std::thread raiser;
    self.probe = [&](message_phase phase, std::size_t swap) {
      if (phase != settings.phase || swap != settings.swap)
        return;
      if (self.rank == frozen) {
        std::string go;
        put(self.control, "frozen");
        take(self.control, go);
      } else if (self.rank == aborted) {
        put(self.control, "there");
        raiser = std::thread([&self] {
          std::string word;
          take(self.control, word);
          self.abort.raise();
        });
      }
    };
    const adasum_recipe recipe{dtype::float32, {300'000, 5}};
    auto inputs = recipe.inputs(self.rank), outputs = inputs;
    const outcome end = self.path->run(recipe.bundle(inputs, outputs), self.deadline());
    const auto before = outputs;
    if (raiser.joinable())
      raiser.join();
    if (self.rank == aborted) {
      std::string go;
      put(self.control, "returned");
      take(self.control, go);
    }
    if (outputs != before || inputs != recipe.inputs(self.rank))
      return std::string{"touched after the return"};
    return std::string{to_string(end.error.kind)} + ": " + end.error.text;
  });
  const std::string disconnected{to_string(error_kind::disconnected)};
  CHECK(members.hear(frozen) == "frozen");
  CHECK(members.hear(aborted) == "there");
  members.tell(aborted, "abort");
  CHECK(members.hear(aborted) == "returned");
  members.tell(frozen, "go");
  CHECK_THAT(members.hear(frozen), Catch::StartsWith(disconnected) && Catch::Contains("rank 12"));
  for (const std::int32_t other : {aborted ^ 3, frozen ^ 3}) {
    const std::string end = members.hear(other);
    if (end != "none: ") // a member that needs no more of the aborted member may have succeeded
      CHECK_THAT(end, Catch::StartsWith(disconnected));
  }
  members.tell(aborted, "look");
  CHECK_THAT(members.hear(aborted), Catch::StartsWith(disconnected + ": the operation was aborted"));
}

TEST_CASE("between hosts, Adasum: every other member's error names a member killed in the middle") {
  const std::string between = GENERATE(as<std::string>{}, "tcp", "ucx");
  job members(between, 4, [](member& self) {
    self.probe = [&](message_phase phase, std::size_t) {
      if (self.rank == 1 && phase == message_phase::exchange)
        ::kill(::getpid(), SIGKILL);
    };
    const adasum_recipe recipe{dtype::float32, {300'000}};
    auto tensor = recipe.inputs(self.rank);
    const outcome end = self.path->run(recipe.bundle(tensor, tensor), self.deadline());
    return std::string{to_string(end.error.kind)} + ": " + end.error.text;
  });
  for (const std::int32_t survivor : {0, 2, 3})
    CHECK_THAT(members.hear(survivor), Catch::StartsWith(std::string{to_string(error_kind::disconnected)}) &&
                                           Catch::Contains("rank 11"));
  CHECK(members.hear(1) == "(dead)");
}
