#include "tools/farandole/cli/frameworks.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "actors/launch/process.hpp"

namespace farandole {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders_of(const std::string& program) {
  std::vector<fs::path> folders;
  std::error_code problem;
  if (program.find('/') != std::string::npos)
    folders.push_back(fs::absolute(fs::path(program).parent_path(), problem));
  if (auto self = fs::read_symlink("/proc/self/exe", problem); !problem)
    folders.push_back(self.parent_path());
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "";
  while (!rest.empty()) {
    const auto colon = rest.find(':');
    folders.emplace_back(rest.substr(0, colon));
    rest.remove_prefix(colon == std::string_view::npos ? rest.size() : colon + 1);
  }
  return folders;
}

std::string last_line(const std::string& text) {
  const auto end = text.find_last_not_of(" \r\n");
  if (end == std::string::npos)
    return "";
  const auto begin = text.find_last_of('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? -1 : begin));
}

/// An interpreter that is importing a binding.
struct attempt {
  framework* about;
  process running;
  std::string said;
  bool ended = false;
};

void drain(int fd, std::string* into) {
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(fd, buffer, sizeof buffer)) > 0;)
    if (into)
      into->append(buffer, static_cast<std::size_t>(count));
}

void conclude(attempt& attempt) {
  const auto exit_status = attempt.running.ending();
  attempt.running.signal(SIGKILL); // ends processes that the interpreter has left behind
  drain(attempt.running.errors.get(), &attempt.said);
  attempt.running.reap(nullptr);
  attempt.ended = true;
  attempt.about->loads = !exit_status.failed();
  if (attempt.about->reason.empty() && exit_status.failed())
    attempt.about->reason = attempt.said.empty() ? exit_status.text() : last_line(attempt.said);
}

bool has_ended(const attempt& attempt) {
  pollfd end{attempt.running.watched.get(), POLLIN, 0};
  return ::poll(&end, 1, 0) > 0;
}

void wait_for_all(std::vector<attempt>& attempts, std::chrono::steady_clock::time_point deadline) {
  constexpr int look_ms = 50; // interval at which output is read
  for (;;) {
    std::vector<pollfd> watched;
    for (const auto& attempt : attempts)
      if (!attempt.ended)
        watched.push_back({attempt.running.watched.get(), POLLIN, 0});
    if (watched.empty())
      return;
    ::poll(watched.data(), watched.size(), look_ms);
    const bool late = std::chrono::steady_clock::now() >= deadline;
    for (auto& attempt : attempts) {
      if (attempt.ended)
        continue;
      drain(attempt.running.output.get(), nullptr);
      drain(attempt.running.errors.get(), &attempt.said);
      if (late && !has_ended(attempt)) {
        attempt.about->reason = "the import did not end in time";
        attempt.running.signal(SIGKILL);
      }
      if (late || has_ended(attempt))
        conclude(attempt);
    }
  }
}

} // namespace

std::optional<std::string> find_python(const std::string& program) {
  std::error_code problem; // a candidate that cannot be examined is skipped
  for (const auto& folder : folders_of(program))
    for (const char* name : {"python3", "python"})
      if (const auto candidate = folder / name;
          fs::is_regular_file(candidate, problem) && ::access(candidate.c_str(), X_OK) == 0)
        return candidate.string();
  return std::nullopt;
}

std::vector<framework> probe_frameworks(const std::string& python, std::chrono::seconds deadline) {
  std::vector<framework> frameworks = {{"TensorFlow", "farandole.tensorflow", false, ""},
                                       {"PyTorch", "farandole.torch", false, ""},
                                       {"MXNet", "farandole.mxnet", false, ""}};
  std::vector<attempt> attempts;
  for (auto& framework_entry : frameworks) {
    process_spec spec;
    spec.arguments = {python, "-c", "import " + framework_entry.module};
    spec.environment = own_environment();
    auto started = start_process(spec);
    if (!started) {
      framework_entry.reason = started.error().text;
      continue;
    }
    for (const int fd : {started->output.get(), started->errors.get()})
      ::fcntl(fd, F_SETFL, O_NONBLOCK);
    attempts.push_back({&framework_entry, std::move(*started), "", false});
  }
  wait_for_all(attempts, std::chrono::steady_clock::now() + deadline);
  return frameworks;
}

} // namespace farandole
