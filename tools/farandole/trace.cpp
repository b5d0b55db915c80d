#include "tools/farandole/trace.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>

#include "messages/values/printable.hpp"
#include "tools/farandole/cli/app_arguments.hpp"
#include "tools/farandole/job_records.hpp"
#include "tools/farandole/trace/merged_trace.hpp"
#include "tools/farandole/trace/placed_profilers.hpp"
#include "tools/farandole/trace/trace_file.hpp"

namespace farandole {

namespace {

constexpr int refused_code = 1;
constexpr int bad_input = 2;

constexpr const char* teaching = R"(
Every thread of a rank keeps its last 4,096 events (FARANDOLE_RECORDER_EVENTS changes this number), so a trace of a running
job contains its last seconds or minutes. For more, farandole trace start lets the launcher, and the agents of other hosts,
copy all events from now on, until farandole trace stop writes them to a folder. The workers are not involved: also the
events of a worker that is killed meanwhile are in its trace. FARANDOLE_TRACE=FOLDER traces a job from its start, also
without our launcher: each rank writes its own trace.

farandole trace merge writes a file for https://ui.perfetto.dev, or chrome://tracing, from the records of all ranks: a
process for every rank, with a thread for every caller, event loop and lane. Arrows lead from calls to the transfers that
carry their tensors, and from the last rank that came to the ranks that waited for that rank.

Ranks on the same host share a clock. The ranks measure the differences between the clocks of several hosts. The transfers
check this, and replace it where it is missing: no rank can end an allreduce before all have begun. The command states the
bound of the error.

Traces of torch.profiler (*.json, *.json.gz) and of the profiler of TensorFlow and JAX (*.xplane.pb) in FOLDER, or that
--profiler names, become further threads of the rank that wrote them, on the same time axis. The rank is that of the process
in the file, or is named by the file or its folder, such as rank-3.

The exit code is 2 if a record or a profiler's trace is missing or cannot be used; the trace contains the others.

Examples:
  farandole trace start --steps 20                             waits for 20 steps, and writes them to a new folder
  farandole trace start; sleep 60; farandole trace stop        traces for a minute
  farandole trace merge --output trace.json                    the job that runs here
  farandole trace merge --output trace.json FOLDER             a folder of a failed job, or of farandole dump
  farandole trace merge --output trace.json --profiler logs    with the traces of torch.profiler in the folder logs)";

struct wishes {
  std::vector<std::string> words;     ///< merge
  std::vector<std::string> profilers; ///< merge
  std::string output;                 ///< a file for merge, a folder for the others; empty: a new folder
  std::string job;                    ///< start and stop
  std::uint32_t steps = 0;
  std::uint32_t most_mib = 64;
  bool json = false;
};

int fail(const std::string& text, int code) {
  std::cerr << "farandole trace: " << printable(text) << std::endl;
  return code;
}

std::string microseconds(std::chrono::nanoseconds time) {
  return std::to_string(time.count() / 1000) + " us";
}

/// How well the clocks of the hosts are known. Empty: there is only one host.
std::string clocks_text(const merged_trace& trace) {
  std::string text;
  for (const auto& [host, clock] : trace.clocks) {
    if (host == trace.reference)
      continue;
    text += "clock of " + printable_name(host) + ": ";
    if (!clock.error)
      text += "not measured, and " + printable_name(host) + " shares no recorded transfer with " +
              printable_name(trace.reference) + "; its events are placed by its own clock\n";
    else if (clock.contradiction.count() > 0)
      text += std::string(clock.measured ? "transfers contradict the measured difference by "
                                         : "transfers contradict each other by ") +
              microseconds(clock.contradiction) +
              ", so the order of events on different hosts is not certain\n";
    else
      text += microseconds(clock.offset) + " ahead of " + printable_name(trace.reference) +
              ", with an error of at most " + microseconds(*clock.error) +
              (clock.measured ? "" : ", according to the transfers") + "\n";
  }
  if (!text.empty())
    text += "times of different hosts have an error of at most " + microseconds(trace.worst_error) +
            " where the clocks are known\n";
  return text;
}

/// Where traces of other profilers are searched.
std::vector<std::string> profiler_paths(const wishes& wanted) {
  auto paths = wanted.profilers;
  for (const auto& word : wanted.words) {
    std::error_code ignored;
    if (std::filesystem::is_directory(word, ignored))
      paths.push_back(word);
  }
  return paths;
}

int merge(const wishes& wanted) {
  auto found = records_named(wanted.words);
  for (const auto& problem : found.problems)
    fail(problem, bad_input);
  for (const auto& notice : found.notices)
    fail(notice, bad_input);
  std::vector<event_record> records;
  for (auto& file : found.files)
    records.push_back(std::move(file.record));
  const auto reading = tick_clock::of_this_host().read();
  placed_profilers profilers(find_profiler_files(profiler_paths(wanted), wanted.output), records,
                             reading.system);
  auto trace = merge_records(records, reading, profilers.first_moments());
  if (trace.ranks == 0)
    return fail("there is no record of a rank, so there is no trace", bad_input);
  trace_file file(wanted.output);
  if (!file.stream())
    return fail(wanted.output + " cannot be written: " + std::strerror(errno), refused_code);
  const auto profiled = profilers.write(trace, file.stream());
  const auto unwritten = file.close() ? std::string() : std::string(std::strerror(errno));
  for (const auto& problem : profilers.problems())
    fail(problem, bad_input);
  if (!unwritten.empty())
    return fail(wanted.output + " cannot be written: " + unwritten, refused_code);
  std::cout << printable_name(wanted.output) << ": " << trace.events << " events of " << trace.ranks
            << (trace.ranks == 1 ? " rank" : " ranks");
  if (trace.dropped > 0)
    std::cout << " (" << trace.dropped << " more were not kept)";
  std::cout << "\n";
  if (profilers.files() > 0)
    std::cout << profiled << " events of " << profilers.files()
              << (profilers.files() == 1 ? " trace" : " traces") << " of other profilers\n";
  std::cout << clocks_text(trace) << "Open it in https://ui.perfetto.dev or chrome://tracing." << std::endl;
  return found.problems.empty() && profilers.problems().empty() ? 0 : bad_input;
}

/// The number of events in the folder, for the user.
std::string contents_of(const std::string& folder) {
  const auto found = read_record_files({folder});
  std::uint64_t events = 0, lost = 0;
  for (const auto& file : found.files)
    for (const auto& thread : file.record.threads)
      for (const auto& entry : thread.events) {
        ++events;
        if (entry.kind == event_kind::gap)
          lost += entry.first;
      }
  auto text = folder + ": " + std::to_string(events) + " events of " + std::to_string(found.files.size()) +
              (found.files.size() == 1 ? " rank" : " ranks");
  if (lost > 0)
    text += "; " + std::to_string(lost) +
            " more are missing in gaps, because they came faster than they could be copied (a higher "
            "FARANDOLE_RECORDER_EVENTS prevents this)";
  return text;
}

int end_traces(const job_record& job, const wishes& wanted) {
  const auto folder = make_output_folder(wanted.output);
  if (!folder)
    return fail(folder.error().text, refused_code);
  write_records request;
  request.folder = *folder;
  request.task.action = record_action::end_traces;
  const auto written = records_by_launcher(job, request);
  if (!written)
    return fail(written.error().text, refused_code);
  for (const auto& notice : written->notices)
    fail(notice, bad_input);
  if (written->files == 0)
    return fail("job " + job.name + " has no workers whose events are recorded", refused_code);
  if (wanted.json)
    std::cout << json_of(*written, *folder) << std::endl;
  else
    std::cout << contents_of(*folder) << "\nfarandole trace merge --output trace.json " << *folder
              << std::endl;
  return written->notices.empty() ? 0 : bad_input;
}

int start(const wishes& wanted) {
  constexpr std::chrono::hours longest_trace{24};
  if (wanted.steps == 0 && (!wanted.output.empty() || wanted.json))
    return fail("--output and --json need --steps: without it, farandole trace stop writes the trace",
                bad_input);
  const auto job = find_job(wanted.job, job_kind::any);
  if (!job)
    return fail(job.error().text, bad_input);
  write_records request;
  request.task = {record_action::begin_traces, {wanted.steps, std::uint64_t{wanted.most_mib} << 20}};
  const bool waits = wanted.steps > 0;
  const auto begun =
      records_by_launcher(*job, request, waits ? std::chrono::seconds(longest_trace) : longest_to_write);
  if (!begun)
    return fail(begun.error().text, refused_code);
  for (const auto& notice : begun->notices)
    fail(notice, bad_input);
  if (waits)
    return end_traces(*job, wanted);
  std::cout << "job " << printable_name(job->name) << " is traced; farandole trace stop writes the trace"
            << std::endl;
  return begun->notices.empty() ? 0 : bad_input;
}

int stop(const wishes& wanted) {
  const auto job = find_job(wanted.job, job_kind::any);
  return job ? end_traces(*job, wanted) : fail(job.error().text, bad_input);
}

void add_job(CLI::App& command, wishes& wanted) {
  command.add_option("job", wanted.job, "the job, if several run: its name, or the path of its file")
      ->type_name("NAME|PATH");
  command
      .add_option("--output", wanted.output,
                  "the folder to make (default: a new one in ~/.local/state/farandole/dumps)")
      ->type_name("FOLDER");
  command.add_flag("--json", wanted.json, "prints JSON");
}

std::unique_ptr<CLI::App> make_app(wishes& wanted) {
  auto app = std::make_unique<CLI::App>("Shows what all ranks did as one picture.", "farandole trace");
  app->footer(std::string(record_words_help) + "\n" + teaching);
  auto* command = app->add_subcommand("merge", "writes one file for Perfetto");
  command->add_option("records", wanted.words, "a running job, a folder or files; see below")
      ->type_name("JOB|FOLDER|FILE");
  command
      ->add_option("--profiler", wanted.profilers, "a trace of another profiler, or a folder of such traces")
      ->type_name("FILE|FOLDER")
      ->allow_extra_args(false); // the words after its value are records
  command->add_option("--output", wanted.output, "the file to write; compressed if its name ends with .gz")
      ->type_name("FILE")
      ->required();
  auto* begin = app->add_subcommand("start", "copies all events of a running job from now on");
  add_job(*begin, wanted);
  begin->add_option("--steps", wanted.steps, "waits for so many training steps, and writes the trace")
      ->type_name("N")
      ->check(CLI::Range(1U, 1'000'000U));
  begin
      ->add_option("--max-mib", wanted.most_mib,
                   "ends a rank's trace when its events take so much memory (64); the files are smaller")
      ->type_name("N")
      ->check(CLI::Range(1U, 1024U));
  add_job(*app->add_subcommand("stop", "ends the trace, and writes a file for each rank"), wanted);
  app->require_subcommand(1);
  return app;
}

} // namespace

std::vector<option_description> trace_options() {
  wishes wanted;
  const auto app = make_app(wanted);
  std::vector<option_description> all;
  for (const auto* command : {"merge", "start", "stop"})
    for (auto& option : describe_options(*app->get_subcommand(command)))
      if (std::ranges::none_of(
              all, [&](const option_description& listed) { return listed.names == option.names; }))
        all.push_back(std::move(option));
  return all;
}

int run_trace(const std::vector<std::string>& words) {
  wishes wanted;
  const auto app = make_app(wanted);
  try {
    app->parse(std::vector<std::string>{words.rbegin(), words.rend()}); // as CLI11 wants them
  } catch (const CLI::CallForHelp& asked) {
    return app->exit(asked);
  } catch (const CLI::ParseError& problem) {
    return fail("error: " + refusal_of(*app, problem, words) + "; see farandole trace --help", bad_input);
  }
  if (app->got_subcommand("start"))
    return start(wanted);
  return app->got_subcommand("stop") ? stop(wanted) : merge(wanted);
}

} // namespace farandole
