#include "tools/farandole/chaos/trial.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <utility>

#include "tools/farandole/chaos/child.hpp"
#include "tools/farandole/cli/job_record.hpp"

namespace farandole::chaos {

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

/// Longer than the launcher needs: by default it kills its workers 5 s after SIGTERM.
constexpr auto ending_time = 15s;

error system_error(const std::string& text) {
  return {error_kind::unknown, text + ": " + std::strerror(errno)};
}

error write_program(const std::string& path, const std::string& shell) {
  std::ofstream file(path);
  file << "#!/bin/sh\n" << shell << "\n";
  file.close();
  if (!file || ::chmod(path.c_str(), 0700) != 0)
    return system_error(path);
  return {};
}

} // namespace

trial::trial(process_keeper keeper, std::string folder, trial_options options)
    : keeper_(std::move(keeper)), folder_(std::move(folder)), options_(std::move(options)) {}

trial::trial(trial&& other) noexcept
    : keeper_(std::move(other.keeper_)), folder_(std::move(other.folder_)),
      options_(std::move(other.options_)), command_(std::move(other.command_)), away_(std::move(other.away_)),
      launcher_(std::exchange(other.launcher_, -1)), output_(std::move(other.output_)),
      output_end_(std::move(other.output_end_)), events_(std::move(other.events_)),
      rendezvous_(std::move(other.rendezvous_)), half_line_(std::move(other.half_line_)),
      half_event_(std::move(other.half_event_)), history_(std::move(other.history_)),
      achieved_(std::move(other.achieved_)), code_(other.code_) {}

trial::~trial() {
  end();
  rendezvous_.reset();
}

expected<trial> trial::start(const trial_options& options) {
  auto keeper = process_keeper::start();
  if (!keeper)
    return keeper.error();
  std::error_code problem;
  auto name = std::filesystem::temp_directory_path(problem).string() + "/farandole-chaos-XXXXXX";
  if (problem || !::mkdtemp(name.data()))
    return system_error("a folder for temporary files");
  keeper->remove_at_end(name);
  trial made(std::move(*keeper), name, options);
  for (auto step : {&trial::write_hosts, &trial::write_script})
    if (auto failed = (made.*step)())
      return failed;
  for (auto step : {&trial::write_entrance, &trial::open_outputs, &trial::start_rendezvous, &trial::launch})
    if (auto failed = (made.*step)())
      return failed;
  return made;
}

/// Name of a host: an address in 127.0.0.0/8, all of which belong to this machine; with agents, an address of the host's
/// network namespace, which to the launcher is another machine.
std::string trial::host(std::int32_t number) const {
  return options_.agents ? host_network::address_of(number) : "127.0.0." + std::to_string(number + 1);
}

/// Replaces the file atomically, because the discovery script may read it at any time.
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
  return write_program(folder_ + "/discover", "exec cat \"${0%/*}/hosts\"");
}

/// The launcher starts all workers in its own network namespace, so each enters its host's namespace first.
error trial::write_entrance() {
  command_ = options_.command;
  if (!options_.network)
    return {};
  for (std::int32_t number = 0; number < options_.processes; ++number) {
    const auto path = folder_ + "/" + host(number);
    if (::symlink(options_.network->path(number).c_str(), path.c_str()) != 0)
      return system_error(path);
  }
  if (options_.agents)
    return write_remote_shell();
  command_.insert(command_.begin(), folder_ + "/enter");
  const auto entrance = host_network::entrance("\"${0%/*}/$HOROVOD_HOSTNAME\"");
  return write_program(command_.front(), "exec " + entrance + " \"$@\"");
}

/// The remote shell of the launcher: runs a command line in the network namespace of a host. Like a client of ssh, it is a
/// process of its own that passes its standard input on. It records its process id and that of the command.
error trial::write_remote_shell() const {
  const auto entrance = host_network::entrance("\"$folder/$host\"");
  return write_program(folder_ + "/shell",
                       "host=$1; shift\nfolder=${0%/*}\necho $$ >\"$folder/shell-$host\"\ncat | setsid " +
                           entrance + " sh -c 'echo $$ >\"$0\"; eval \"$1\"' \"$folder/agent-$host\" \"$*\"");
}

error trial::open_outputs() {
  const auto told = folder_ + "/events";
  events_ = descriptor{::open(told.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600)};
  int ends[2];
  if (!events_ || ::pipe2(ends, O_CLOEXEC) != 0)
    return system_error(told);
  output_ = descriptor{ends[0]};
  output_end_ = descriptor{ends[1]};
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  return {};
}

error trial::start_rendezvous() {
  if (!options_.apart)
    return {};
  apart_options options;
  options.processes = options_.processes;
  options.fewest = options_.fewest;
  options.folder = folder_;
  options.errors = output_end_.get();
  if (options_.network) {
    options.ip = options_.network->address();
    options.network = options_.network->middle();
  }
  auto started = apart_rendezvous::start(options);
  if (!started)
    return started.error();
  rendezvous_.emplace(std::move(*started));
  return {};
}

error trial::launch() {
  const auto limit = std::to_string(options_.processes);
  child_options options;
  options.words = {"farandole",
                   "run",
                   "-np",
                   limit,
                   "--max-np",
                   limit,
                   "--min-np",
                   std::to_string(options_.fewest),
                   "--host-discovery-script",
                   folder_ + "/discover",
                   "--blacklist-cooldown-range",
                   "1",
                   "2"};
  options.output = options.errors = output_end_.get();
  // The event records of injected failures must not replace those of the user's own jobs.
  std::map<std::string, std::string> settings{{"FARANDOLE_ELASTIC_EVENTS", folder_ + "/events"},
                                              {"XDG_STATE_HOME", folder_ + "/state"}};
  if (rendezvous_) {
    options.words.insert(options.words.end(), {"--rendezvous", rendezvous_->address()});
    settings["FARANDOLE_SECRET_FILE"] = rendezvous_->secret_file();
  }
  if (options_.agents)
    settings["FARANDOLE_RSH"] = folder_ + "/shell";
  if (options_.network) {
    options.words.insert(options.words.end(), {"--network-interfaces", host_network::interface});
    options.network = options_.network->middle();
  }
  options.words.insert(options.words.end(), command_.begin(), command_.end());
  options.settings = std::move(settings);
  launcher_ = spawn(options);
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
      return; // no more output for now
    half_line_.append(buffer, static_cast<std::size_t>(count));
    for (auto end = half_line_.find('\n'); end != std::string::npos; end = half_line_.find('\n')) {
      const auto line = half_line_.substr(0, end);
      std::cout << line << std::endl;
      take_line(line, achieved_);
      half_line_.erase(0, end + 1);
    }
  }
  output_.close(); // poll() ignores a closed descriptor, which is -1
}

void trial::read_events() {
  char buffer[1 << 14];
  for (ssize_t count = 0; (count = ::read(events_.get(), buffer, sizeof buffer)) > 0;)
    half_event_.append(buffer, static_cast<std::size_t>(count));
  for (auto end = half_event_.find('\n'); end != std::string::npos; end = half_event_.find('\n')) {
    if (const auto event = parse_event(std::string_view(half_event_).substr(0, end)))
      history_.add(*event);
    half_event_.erase(0, end + 1);
  }
}

void trial::end() {
  if (launcher_ < 0)
    return;
  ::kill(launcher_, SIGTERM);
  const auto deadline = clock::now() + ending_time;
  while (clock::now() < deadline)
    if (!watch(50ms, -1))
      return;
  ::kill(launcher_, SIGKILL); // its keeper process then ends the workers
  code_ = reap(std::exchange(launcher_, -1), ending_time).value_or(137);
}

void trial::take_out(const std::string& host) {
  away_.insert(host);
  [[maybe_unused]] const auto problem = write_hosts(); // after a failure the old list stays in effect
}

void trial::bring_back(const std::string& host) {
  away_.erase(host);
  [[maybe_unused]] const auto problem = write_hosts();
}

std::string trial::set_link(const std::string& name, bool up) const {
  for (std::int32_t number = 0; options_.network && number < options_.processes; ++number)
    if (host(number) == name)
      return options_.network->set_link(number, up).text;
  return "host " + name + " has no link of its own";
}

std::string trial::kill_agent(const std::string& host) const {
  return kill_process_of("agent-" + host);
}

std::string trial::kill_shell(const std::string& host) const {
  return kill_process_of("shell-" + host);
}

std::string trial::kill_process_of(const std::string& file) const {
  pid_t process = -1;
  if (!(std::ifstream(folder_ + "/" + file) >> process) || process <= 0)
    return "there is no process id in " + file;
  return ::kill(process, SIGKILL) == 0 ? std::string() : std::strerror(errno);
}

std::string trial::drain(std::int32_t rank) const {
  child_options options;
  options.words = {"farandole",         "drain", "--no-wait", "--job", job_name(command_, launcher_),
                   std::to_string(rank)};
  if (options_.network)
    options.network = options_.network->middle();
  const auto ended = run_to_end(options);
  return ended.code == 0 ? std::string() : ended.said.substr(0, ended.said.find('\n'));
}

} // namespace farandole::chaos
