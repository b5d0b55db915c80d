#include "tools/farandole/dump.hpp"

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>

#include "messages/values/printable.hpp"
#include "tools/farandole/cli/app_arguments.hpp"
#include "tools/farandole/job_records.hpp"

namespace farandole {

namespace {

constexpr int refused_code = 1;
constexpr int incomplete_code = 2;
constexpr int bad_usage = 2;

constexpr const char* teaching = R"(
Each worker records what it does in memory that its launcher holds as well. The command asks the launcher to copy the
records of all workers, on all hosts, to files. The workers are not disturbed, and need not answer: the records of workers
that are stopped or stuck are included. It prints the folder, which farandole explain and farandole report read.

The exit code is 2 if records of some host are missing.

Examples:
  farandole dump                       the job that runs here, to a new folder in ~/.local/state/farandole/dumps
  farandole dump train-4711 --output /tmp/hang)";

struct wishes {
  std::string job;
  std::string folder;
  bool json = false;
};

int fail(const std::string& text, int code) {
  std::cerr << "farandole dump: " << printable(text) << std::endl;
  return code;
}

int dump(const wishes& wanted) {
  const auto job = find_job(wanted.job, job_kind::any);
  if (!job)
    return fail(job.error().text, bad_usage);
  const auto folder = make_output_folder(wanted.folder);
  if (!folder)
    return fail(folder.error().text, refused_code);
  write_records request;
  request.folder = *folder;
  const auto written = records_by_launcher(*job, request);
  if (!written)
    return fail(written.error().text, refused_code);
  for (const auto& notice : written->notices)
    fail(notice, incomplete_code);
  if (written->files == 0)
    return fail("job " + job->name + " has no workers with a record now", refused_code);
  std::cout << (wanted.json ? json_of(*written, *folder) : *folder) << std::endl;
  return written->notices.empty() ? 0 : incomplete_code;
}

std::unique_ptr<CLI::App> make_app(wishes& wanted) {
  auto app =
      std::make_unique<CLI::App>("Writes the event records of a running job to files.", "farandole dump");
  app->footer(teaching);
  app->add_option("job", wanted.job, "the job, if several run: its name, or the path of its file")
      ->type_name("NAME|PATH");
  app->add_option("--output", wanted.folder, "the folder to make")->type_name("FOLDER");
  app->add_flag("--json", wanted.json, "prints JSON");
  return app;
}

} // namespace

std::vector<option_description> dump_options() {
  wishes wanted;
  return describe_options(*make_app(wanted));
}

int run_dump(const std::vector<std::string>& words) {
  wishes wanted;
  const auto app = make_app(wanted);
  try {
    app->parse(std::vector<std::string>{words.rbegin(), words.rend()}); // as CLI11 wants them
  } catch (const CLI::CallForHelp& asked) {
    return app->exit(asked);
  } catch (const CLI::ParseError& problem) {
    return fail("error: " + refusal_of(*app, problem, words) + "; see farandole dump --help", bad_usage);
  }
  return dump(wanted);
}

} // namespace farandole
