#include "tools/farandole/chaos/trial.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <utility>

#include "tools/farandole/job_record.hpp"

namespace farandole::chaos {

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr const char* self = "/proc/self/exe";
constexpr std::string_view mark = "WEIGHTS ";
/// The launcher kills its workers five seconds after it was told to end.
constexpr auto ending_time = 15s;
constexpr auto drain_time = 15s;

error system_error(const std::string& what) {
  return {error_kind::unknown, what + ": " + std::strerror(errno)};
}

/// Every address of this form is this machine.
std::string host(std::int32_t number) {
  return "127.0.0." + std::to_string(number + 1);
}

/// Runs this program with these words; -1 where it cannot be started. Whatever was blocked here is not there.
pid_t spawn(const std::vector<std::string>& words, int output, int errors) {
  std::vector<char*> pointers;
  for (const auto& word : words)
    pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0)
    return child;
  ::setpgid(0, 0); // a terminal's Ctrl-C is for the tool, which ends the job
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::getppid() == parent && ::dup2(output, 1) >= 0 && ::dup2(errors, 2) >= 0)
    ::execv(self, pointers.data());
  ::_exit(127);
}

int code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Waits so long; nothing: it still runs.
std::optional<int> reap(pid_t child, std::chrono::milliseconds longest) {
  const auto until = clock::now() + longest;
  for (int status = 0;;) {
    const auto ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child)
      return code_of(status);
    if (ended < 0 && errno != EINTR)
      return 127;
    if (clock::now() >= until)
      return std::nullopt;
    ::poll(nullptr, 0, 10);
  }
}

} // namespace

trial::trial(std::string folder, trial_options options)
    : folder_(std::move(folder)), options_(std::move(options)) {}

trial::trial(trial&& other) noexcept
    : folder_(std::exchange(other.folder_, {})), options_(std::move(other.options_)),
      away_(std::move(other.away_)), launcher_(std::exchange(other.launcher_, -1)),
      output_(std::move(other.output_)), events_(std::move(other.events_)),
      half_line_(std::move(other.half_line_)), half_event_(std::move(other.half_event_)),
      seen_(std::move(other.seen_)), weights_(std::move(other.weights_)), code_(other.code_) {}

trial::~trial() {
  end();
  std::error_code problem;
  if (!folder_.empty())
    std::filesystem::remove_all(folder_, problem);
}

expected<trial> trial::start(const trial_options& options) {
  std::error_code problem;
  auto name = std::filesystem::temp_directory_path(problem).string() + "/farandole-chaos-XXXXXX";
  if (problem || !::mkdtemp(name.data()))
    return system_error("a folder for temporary files");
  trial made(name, options);
  for (auto step : {&trial::write_hosts, &trial::write_script})
    if (auto failed = (made.*step)())
      return failed;
  if (auto failed = made.launch())
    return failed;
  return made;
}

/// Never half of it: the script may run at any moment.
error trial::write_hosts() const {
  const auto path = folder_ + "/hosts";
  std::ofstream file(path + ".new");
  for (std::int32_t number = 0; number < options_.processes; ++number)
    if (!away_.contains(host(number)))
      file << host(number) << ":1\n";
  file.close();
  if (!file || ::rename((path + ".new").c_str(), path.c_str()) != 0)
    return system_error(path);
  return {};
}

error trial::write_script() const {
  const auto path = folder_ + "/discover";
  std::ofstream file(path);
  file << "#!/bin/sh\nexec cat \"${0%/*}/hosts\"\n";
  file.close();
  if (!file || ::chmod(path.c_str(), 0700) != 0)
    return system_error(path);
  return {};
}

error trial::launch() {
  const auto told = folder_ + "/events";
  events_ = descriptor{::open(told.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600)};
  int ends[2];
  if (!events_ || ::pipe2(ends, O_CLOEXEC) != 0)
    return system_error(told);
  output_ = descriptor{ends[0]};
  const descriptor other{ends[1]};
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  ::setenv("FARANDOLE_ELASTIC_EVENTS", told.c_str(), 1);
  const auto most = std::to_string(options_.processes);
  std::vector<std::string> words = {"farandole",
                                    "run",
                                    "-np",
                                    most,
                                    "--max-np",
                                    most,
                                    "--min-np",
                                    std::to_string(options_.fewest),
                                    "--host-discovery-script",
                                    folder_ + "/discover",
                                    "--blacklist-cooldown-range",
                                    "1",
                                    "2"};
  words.insert(words.end(), options_.command.begin(), options_.command.end());
  launcher_ = spawn(words, other.get(), other.get());
  ::unsetenv("FARANDOLE_ELASTIC_EVENTS");
  return launcher_ < 0 ? system_error("fork") : error{};
}

bool trial::watch(std::chrono::milliseconds time, int also) {
  pollfd waiting[2] = {{output_.get(), POLLIN, 0}, {also, POLLIN, 0}};
  ::poll(waiting, 2, static_cast<int>(time.count()));
  if (waiting[0].revents != 0)
    read_output();
  read_events();
  if (launcher_ < 0)
    return false;
  const auto ended = reap(launcher_, 0ms);
  if (!ended)
    return true;
  code_ = *ended;
  launcher_ = -1;
  read_output();
  read_events();
  return false;
}

void trial::read_output() {
  char buffer[1 << 14];
  for (ssize_t count = 0; output_ && (count = ::read(output_.get(), buffer, sizeof buffer)) != 0;) {
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return; // nothing more for now
    half_line_.append(buffer, static_cast<std::size_t>(count));
    for (auto end = half_line_.find('\n'); end != std::string::npos; end = half_line_.find('\n')) {
      take_line(half_line_.substr(0, end));
      half_line_.erase(0, end + 1);
    }
  }
  output_.close(); // and poll() passes it over
}

void trial::take_line(const std::string& line) {
  std::cout << line << std::endl;
  if (const auto at = line.find(mark); at != std::string::npos)
    weights_ = line.substr(at + mark.size());
}

void trial::read_events() {
  char buffer[1 << 14];
  for (ssize_t count = 0; (count = ::read(events_.get(), buffer, sizeof buffer)) > 0;)
    half_event_.append(buffer, static_cast<std::size_t>(count));
  for (auto end = half_event_.find('\n'); end != std::string::npos; end = half_event_.find('\n')) {
    if (const auto event = parse_event(std::string_view(half_event_).substr(0, end)))
      seen_.add(*event);
    half_event_.erase(0, end + 1);
  }
}

void trial::end() {
  if (launcher_ < 0)
    return;
  ::kill(launcher_, SIGTERM);
  const auto until = clock::now() + ending_time;
  while (clock::now() < until)
    if (!watch(50ms, -1))
      return;
  ::kill(launcher_, SIGKILL); // its keeper ends the workers
  code_ = reap(std::exchange(launcher_, -1), ending_time).value_or(137);
}

void trial::take_out(const std::string& host) {
  away_.insert(host);
  [[maybe_unused]] const auto problem = write_hosts(); // the list stays as it was
}

void trial::bring_back(const std::string& host) {
  away_.erase(host);
  [[maybe_unused]] const auto problem = write_hosts();
}

std::string trial::drain(std::int32_t rank) const {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return system_error("pipe2").text;
  const descriptor mine{ends[0]};
  descriptor other{ends[1]};
  const auto child = spawn({"farandole", "drain", "--no-wait", "--job", job_name(options_.command, launcher_),
                            std::to_string(rank)},
                           other.get(), other.get());
  other.close();
  const auto code = child < 0 ? std::optional<int>(127) : reap(child, drain_time);
  if (!code) {
    ::kill(child, SIGKILL);
    reap(child, drain_time);
    return "farandole drain did not end";
  }
  if (*code == 0)
    return {};
  char said[512];
  const auto count = std::max<ssize_t>(::read(mine.get(), said, sizeof said), 0);
  std::string text(said, static_cast<std::size_t>(count));
  return text.substr(0, text.find('\n'));
}

} // namespace farandole::chaos
