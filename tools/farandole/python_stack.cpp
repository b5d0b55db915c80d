#include "tools/farandole/python_stack.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <set>
#include <sstream>

#include "actors/launch/process.hpp"
#include "actors/launch/program.hpp"
#include "tools/farandole/command_output.hpp"
#include "tools/farandole/hosts.hpp"

namespace farandole {

namespace {

std::set<std::int32_t> missing_ranks(const explanation& job) {
  std::set<std::int32_t> missing;
  for (const auto& tensor : job.pending)
    missing.insert(tensor.missing.begin(), tensor.missing.end());
  return missing;
}

bool runs_user_code(const rank_state& state) {
  return state.work == rank_work::user_code || state.work == rank_work::no_call ||
         state.work == rank_work::not_started;
}

std::vector<std::string> lines_of(const std::string& text, std::size_t most) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line) && lines.size() < most;)
    if (!line.empty())
      lines.push_back(line);
  return lines;
}

std::vector<std::string> hint(const stack_limits& limits, const std::string& text) {
  return limits.gives_hints ? std::vector{"(" + text + ")"} : std::vector<std::string>{};
}

std::vector<std::string> stack_of(const rank_state& state, const stack_limits& limits) {
  const auto process = std::to_string(state.process);
  if (!is_this_host(state.host))
    return hint(limits, "its Python stack: farandole rsh " + state.host + " py-spy dump --pid " + process);
  const char* path = std::getenv("PATH");
  if (!find_program("py-spy", path ? path : ""))
    return hint(limits, "pip install py-spy shows its Python stack here");
  // Without --nonblocking, py-spy stops the process while it reads.
  const auto printed =
      output_of({"py-spy", "dump", "--nonblocking", "--pid", process}, own_environment(), limits.longest);
  return printed
             ? lines_of(*printed, limits.lines)
             : std::vector<std::string>{"(its Python stack cannot be read: " + printed.error().text + ")"};
}

} // namespace

void add_python_stacks(explanation& job, const stack_limits& limits) {
  const auto missing = missing_ranks(job);
  std::vector<std::future<void>> readings; // waited for by their destructors
  for (auto& state : job.ranks)
    if (state.process != 0 && missing.contains(state.rank) && runs_user_code(state) &&
        readings.size() < limits.stacks)
      readings.push_back(
          std::async(std::launch::async, [&state, &limits] { state.stack = stack_of(state, limits); }));
}

} // namespace farandole
