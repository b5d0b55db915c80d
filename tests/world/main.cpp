#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include <chrono>
#include <iostream>
#include <numeric>
#include <string>

#include "tests/case_limit.hpp"
#include "tests/world/scale.hpp"
#include "tests/world/seeds.hpp"

namespace {

std::string wanted_count;
std::string wanted_seed;
std::string wanted_base;
bool wants_all = false;

} // namespace

namespace farandole::testing {

std::vector<std::uint64_t> seeds(std::size_t usual) {
  if (!wanted_seed.empty())
    return {std::stoull(wanted_seed)};
#ifdef __SANITIZE_ADDRESS__
  usual = (usual + 9) / 10; // several times slower
#endif
  std::vector<std::uint64_t> all(wanted_count.empty() ? usual : std::stoull(wanted_count));
  std::iota(all.begin(), all.end(), 1 + (wanted_base.empty() ? std::uint64_t{0} : std::stoull(wanted_base)));
  return all;
}

bool keep_going() {
  return wants_all;
}

} // namespace farandole::testing

int main(int argc, char** argv) {
  bool scale = false;
  bool regroup_scale = false;
  Catch::Session session;
  using namespace Catch::clara;
  session.cli(session.cli() |
              Opt(wanted_count, "N")["--seeds"]("number of seeds with which each simulated job runs") |
              Opt(wanted_seed, "S")["--seed"]("play only this seed") |
              Opt(wanted_base, "B")["--base"]("the first seed is this number plus 1") |
              Opt(wants_all)["--keep-going"]("continue after a seed of elastic jobs has failed") |
              Opt(scale)["--scale"]("run no tests; measure large jobs and print docs/scale.md") |
              Opt(regroup_scale)["--regroup-scale"](
                  "run no tests; measure and print only the part of docs/scale.md about regroups"));
  if (const auto bad = session.applyCommandLine(argc, argv))
    return bad;
  if (scale) {
    farandole::testing::write_scale(std::cout);
    return 0;
  }
  if (regroup_scale) {
    farandole::testing::write_regroup_scale(std::cout);
    return 0;
  }
  // A case plays many seeds one after the other: the 2,000 of the standard suite in two minutes. The time of more grows
  // with the number that the caller chooses.
  const bool is_long = !wanted_count.empty() && std::stoull(wanted_count) > 2000;
  farandole::testing::limit_cases(std::chrono::minutes{is_long ? 0 : 15});
  return session.run();
}
