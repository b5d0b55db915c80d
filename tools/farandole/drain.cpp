#include "tools/farandole/drain.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iostream>
#include <memory>
#include <sstream>

#include "actors/member/drain_call.hpp"
#include "messages/values/printable.hpp"
#include "messages/wire/membership.hpp"
#include "tools/farandole/cli/app_arguments.hpp"
#include "tools/farandole/cli/job_record.hpp"

namespace farandole {

namespace {

constexpr int refused_code = 1;
constexpr int bad_usage = 2;
/// Maximum time to wait for the list of workers that leave, which the job sends immediately.
constexpr std::chrono::seconds answer_time{10};

constexpr const char* teaching = R"(
The workers leave at the next commit of the job: no step is lost, and the other workers continue without an error.
Their hosts get no new workers until discovery reports more slots there. The command changes nothing if fewer than
--min-np workers would remain.

Examples:
  farandole drain 3              rank 3 of the elastic job that runs here
  farandole drain alpha beta     all workers on two hosts, as the launcher names them
  farandole drain --job train-4711 --timeout 300 alpha)";

struct wishes {
  std::vector<std::string> name;
  std::string job;
  double timeout_s = 60;
  bool no_wait = false;
};

/// Splits the words into ranks, which are numbers, and hosts, which are all others.
error sort_out(const std::vector<std::string>& words, drain& asked) {
  for (const auto& word : words) {
    if (!std::all_of(word.begin(), word.end(), [](unsigned char c) { return c >= '0' && c <= '9'; })) {
      asked.hosts.push_back(word);
      continue;
    }
    std::int32_t rank = -1;
    const auto result = std::from_chars(word.data(), word.data() + word.size(), rank);
    if (result.ec != std::errc{} || rank >= member_limit)
      return {error_kind::invalid_argument, "rank " + word + " is out of range"};
    asked.ranks.push_back(rank);
  }
  return {};
}

std::string name_of(const leaver& departing) {
  const auto slot = "slot " + std::to_string(departing.slot) + " on " + departing.host;
  return departing.rank < 0 ? "the worker that is no member yet (" + slot + ")"
                            : "rank " + std::to_string(departing.rank) + " (" + slot + ")";
}

std::string seconds_text(double seconds) {
  std::ostringstream text;
  text << seconds << " s";
  return text.str();
}

int fail(const std::string& text, int code) {
  std::cerr << "farandole drain: " << printable(text) << std::endl;
  return code;
}

int wait_until_out(drain_call& call, const std::vector<leaver>& leavers, const wishes& wanted) {
  const auto longest =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(wanted.timeout_s));
  const auto answer = call.next(longest);
  if (answer || answer.error().kind == error_kind::disconnected) {
    for (const auto& leaver : leavers)
      std::cout << name_of(leaver) << " is out" << (answer ? "" : ": the job has ended") << std::endl;
    return 0;
  }
  if (answer.error().kind != error_kind::timed_out)
    return fail("whether all are out is not known: " + answer.error().text, refused_code);
  return fail("not all are out after " + seconds_text(wanted.timeout_s) +
                  " (--timeout); they still leave at the next commit",
              refused_code);
}

int drain_job(const wishes& wanted) {
  drain asked;
  if (auto problem = sort_out(wanted.name, asked))
    return fail(problem.text, bad_usage);
  const auto job = find_job(wanted.job, job_kind::elastic);
  if (!job)
    return fail(job.error().text, bad_usage);
  drain_call call({job->ip, job->port, job->secret}, asked);
  const auto plan = call.next(answer_time);
  if (!plan)
    return fail("job " + job->name +
                    (plan.error().kind == error_kind::precondition ? " refused: " : " does not answer: ") +
                    plan.error().text,
                refused_code);
  if (!plan->problem.empty())
    return fail(plan->problem, refused_code);
  for (const auto& leaver : plan->leavers)
    std::cout << name_of(leaver) << (leaver.rank < 0 ? " ends now" : " leaves at the next commit")
              << std::endl;
  return wanted.no_wait ? 0 : wait_until_out(call, plan->leavers, wanted);
}

std::unique_ptr<CLI::App> make_app(wishes& wanted) {
  auto app = std::make_unique<CLI::App>("Removes workers from an elastic job at its next commit.",
                                        "farandole drain");
  app->footer(teaching);
  app->add_option("workers", wanted.name, "ranks, and hosts as the launcher names them")
      ->type_name("RANK|HOST")
      ->required();
  app->add_option("--job", wanted.job, "the job, if several run: its name, or the path of its file")
      ->type_name("NAME|PATH");
  app->add_option("--timeout", wanted.timeout_s, "maximum time to wait until they have left")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 86400.0).description(""))
      ->capture_default_str();
  app->add_flag("--no-wait", wanted.no_wait, "does not wait until they have left");
  return app;
}

} // namespace

std::vector<option_description> drain_options() {
  wishes wanted;
  return describe_options(*make_app(wanted));
}

int run_drain(const std::vector<std::string>& words) {
  wishes wanted;
  const auto app = make_app(wanted);
  try {
    app->parse(std::vector<std::string>{words.rbegin(), words.rend()}); // as CLI11 wants them
  } catch (const CLI::CallForHelp& asked) {
    return app->exit(asked);
  } catch (const CLI::ParseError& problem) {
    return fail("error: " + refusal_of(*app, problem, words) + "; see farandole drain --help", bad_usage);
  }
  return drain_job(wanted);
}

} // namespace farandole
