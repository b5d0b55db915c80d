#include "tools/farandole/report.hpp"

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>

#include "messages/values/printable.hpp"
#include "tools/farandole/cli/app_arguments.hpp"
#include "tools/farandole/job_records.hpp"
#include "tools/farandole/report/report_text.hpp"

namespace farandole {

namespace {

constexpr int bad_input = 2;

constexpr const char* teaching = R"(
The report divides the steps of every rank into a sum:

  outside      no thread of the script waits: the script computes, or loads data
  blocked      a thread waits for another rank, which had not called yet, or was slow to move its part
  negotiation  all ranks have called, and the leader has not scheduled the tensor yet
  queue        the tensor waits behind others that are moved
  transfer     the tensor is moved
  hidden       beside the sum: tensors were moved while the script computed

Then the report names the ranks or hosts that hold up the others, if any, and shows the critical path of a step.

A step ends at each call of farandole.mark_step(). Without these calls, steps are inferred from the names of tensors that
recur. The exit code is 2 if a record is missing or cannot be used, or if no steps are found.

Examples:
  farandole report                  a job of this host
  farandole report ~/.local/state/farandole/dumps/20261126T160308-4711
  farandole report --json FOLDER
  farandole report rank0.events rank1.events)";

struct wishes {
  std::vector<std::string> words;
  bool json = false;
};

int fail(const std::string& text) {
  std::cerr << "farandole report: " << printable(text) << std::endl;
  return bad_input;
}

int report(const wishes& wanted) {
  auto found = records_named(wanted.words);
  const auto reading = tick_clock::of_this_host().read();
  const auto activities = activities_in(found, reading);
  for (const auto& problem : found.problems)
    fail(problem);
  for (const auto& notice : found.notices)
    fail(notice);
  const auto members = members_in(found, activities);
  if (members.empty())
    return found.problems.empty() ? fail("error: none of the processes has become a member of its job")
                                  : bad_input;
  const auto job = report_job(members, reading);
  if (job.steps.steps.empty())
    return fail("error: " + refusal_of(job));
  std::cout << (wanted.json ? json_of(job) : text_of(job)) << std::flush;
  return found.problems.empty() ? 0 : bad_input;
}

std::unique_ptr<CLI::App> make_app(wishes& wanted) {
  auto app = std::make_unique<CLI::App>(
      "States where the time of a training step goes, and how much of it each rank costs.",
      "farandole report");
  app->footer(std::string(record_words_help) + "\n" + teaching);
  app->add_option("records", wanted.words, "a running job, a folder or files; see below")
      ->type_name("JOB|FOLDER|FILE");
  app->add_flag("--json", wanted.json, "prints JSON; times are in seconds");
  return app;
}

} // namespace

std::vector<option_description> report_options() {
  wishes wanted;
  return describe_options(*make_app(wanted));
}

int run_report(const std::vector<std::string>& words) {
  wishes wanted;
  const auto app = make_app(wanted);
  try {
    app->parse(std::vector<std::string>{words.rbegin(), words.rend()}); // as CLI11 wants them
  } catch (const CLI::CallForHelp& asked) {
    return app->exit(asked);
  } catch (const CLI::ParseError& problem) {
    return fail("error: " + refusal_of(*app, problem, words) + "; see farandole report --help");
  }
  return report(wanted);
}

} // namespace farandole
