#include "tools/farandole/command_output.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "actors/launch/last_lines.hpp"
#include "actors/launch/process.hpp"
#include "tools/farandole/cli/shell_words.hpp"

namespace farandole {

namespace {

constexpr std::size_t most_bytes = 1 << 24;

/// Reads the bytes that have arrived. Returns false at the end of the stream.
bool read_some(const descriptor& from, std::string& into) {
  char buffer[4096];
  const auto count = ::read(from.get(), buffer, sizeof buffer);
  if (count > 0)
    into.append(buffer, static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

/// Reads both streams until the process has ended and they are empty. The process can close its streams and run on, and
/// others that it has started can hold them after its end. Returns the reason if that did not succeed.
std::string read_all(process& running, std::chrono::milliseconds timeout, std::string& output,
                     std::string& errors) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  bool ended = false;
  while (running.output || running.errors || !ended) {
    const auto rest =
        std::max({}, std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()));
    pollfd watched[] = {{running.output ? running.output.get() : -1, POLLIN, 0},
                        {running.errors ? running.errors.get() : -1, POLLIN, 0},
                        {ended ? -1 : running.watched.get(), POLLIN, 0}};
    const auto ready = ::poll(watched, std::size(watched), ended ? 0 : static_cast<int>(rest.count()));
    if (ready == 0 && ended)
      return {};
    if (ready == 0 || (rest.count() == 0 && !ended))
      return "it has not ended within " + std::to_string(timeout.count()) + " ms";
    if (watched[0].revents != 0 && !read_some(running.output, output))
      running.output.close();
    if (watched[1].revents != 0 && !read_some(running.errors, errors))
      running.errors.close();
    ended = ended || watched[2].revents != 0;
    if (output.size() + errors.size() > most_bytes)
      return "it has printed more than " + std::to_string(most_bytes) + " bytes";
  }
  return {};
}

} // namespace

expected<std::string> output_of(const std::vector<std::string>& command,
                                const std::vector<std::string>& environment,
                                std::chrono::milliseconds timeout) {
  const auto failed = [&](const std::string& reason) {
    return error{error_kind::invalid_argument, "'" + shell_line(command) + "' failed: " + reason};
  };
  process_spec spec;
  spec.arguments = command;
  spec.environment = environment;
  auto running = start_process(spec);
  if (!running)
    return failed(running.error().text);
  std::string output, errors;
  auto reason = read_all(*running, timeout, output, errors);
  if (!reason.empty())
    running->signal(SIGKILL);
  const auto end = running->ending();
  running->reap(nullptr);
  if (!reason.empty())
    return failed(reason);
  if (!end.failed())
    return output;
  last_lines said;
  said.take(errors);
  const auto lines = said.lines();
  return failed("it " + end.text() + (lines.empty() ? "" : ": " + lines.back()));
}

} // namespace farandole
