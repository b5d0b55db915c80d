#include "tools/farandole/explain.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>

#include "messages/record/event_kinds.hpp"
#include "messages/values/printable.hpp"
#include "tools/farandole/cli/app_arguments.hpp"
#include "tools/farandole/explain/explanation_text.hpp"
#include "tools/farandole/job_records.hpp"
#include "tools/farandole/python_stack.hpp"

namespace farandole {

namespace {

constexpr int bad_input = 2;

constexpr const char* teaching = R"(
When a job fails, or an elastic job loses a member, the launcher writes the records to a folder, and prints this command.
The 8 newest folders are kept, in ~/.local/state/farandole/dumps or below $XDG_STATE_HOME. A process that no launcher
started keeps its record in the file that FARANDOLE_RECORDER_FILE names.

If py-spy is installed (pip install py-spy), the Python stacks of ranks on this host are shown that run code of the user
while other ranks wait for them. py-spy reads the memory of the process, which is not stopped for it.

The exit code is 2 if some record is missing or cannot be used; the others are explained nevertheless.

Examples:
  farandole explain                  what the job that runs here is waiting for now
  farandole explain train-4711       the same, if several jobs run
  farandole explain ~/.local/state/farandole/dumps/20261126T160308-4711
  farandole explain --json FOLDER
  farandole explain rank0.events rank1.events)";

struct wishes {
  std::vector<std::string> words;
  bool json = false;
  bool events = false;
};

int fail(const std::string& text) {
  std::cerr << "farandole explain: " << printable(text) << std::endl;
  return bad_input;
}

int explain(const wishes& wanted) {
  auto found = records_named(wanted.words);
  const auto reading = tick_clock::of_this_host().read();
  const auto activities = activities_in(found, reading);
  for (const auto& problem : found.problems)
    fail(problem);
  for (const auto& notice : found.notices)
    fail(notice);
  if (activities.empty())
    return bad_input;
  auto job = explain_job(activities, reading.system);
  if (job.running)
    add_python_stacks(job);
  std::cout << (wanted.json ? json_of(job) : text_of(job)) << std::flush;
  return found.problems.empty() ? 0 : bad_input;
}

std::unique_ptr<CLI::App> make_app(wishes& wanted) {
  auto app = std::make_unique<CLI::App>(
      "States what the ranks of a job were waiting for, and what the missing ranks were doing instead.",
      "farandole explain");
  app->footer(std::string(record_words_help) + "\n" + teaching);
  app->add_option("records", wanted.words, "a running job, a folder or files; see below")
      ->type_name("JOB|FOLDER|FILE");
  app->add_flag("--json", wanted.json, "prints JSON");
  app->add_flag("--events", wanted.events, "prints the kinds of events as Markdown, and reads no records");
  return app;
}

} // namespace

std::string explain_ranks(const std::string& folder, const std::vector<std::int32_t>& ranks,
                          std::chrono::steady_clock::time_point deadline) {
  auto found = read_record_files({folder});
  const auto reading = tick_clock::of_this_host().read();
  const auto activities = activities_in(found, reading);
  if (activities.empty())
    return {};
  auto job = explain_job(activities, reading.system);
  const auto rest =
      std::chrono::floor<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  if (job.running && rest.count() > 0)
    add_python_stacks(job, {.stacks = 4, .lines = 20, .longest = rest, .gives_hints = false});
  return text_of_ranks(job, ranks);
}

std::vector<option_description> explain_options() {
  wishes wanted;
  return describe_options(*make_app(wanted));
}

int run_explain(const std::vector<std::string>& words) {
  wishes wanted;
  const auto app = make_app(wanted);
  try {
    app->parse(std::vector<std::string>{words.rbegin(), words.rend()}); // as CLI11 wants them
  } catch (const CLI::CallForHelp& asked) {
    return app->exit(asked);
  } catch (const CLI::ParseError& problem) {
    return fail("error: " + refusal_of(*app, problem, words) + "; see farandole explain --help");
  }
  if (wanted.events) {
    std::cout << event_page() << std::flush;
    return 0;
  }
  return explain(wanted);
}

} // namespace farandole
