#include "actors/launch/remote_command.hpp"

#include <signal.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <utility>

#include "actors/event_loop/loop.hpp"
#include "actors/launch/input_reader.hpp"
#include "actors/launch/job_watch.hpp"
#include "actors/launch/output_writer.hpp"
#include "actors/launch/remote_command_actor.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

/// Writes the output of the command as it is.
class plain_output final : public output_sink {
public:
  explicit plain_output(output_writer& writer) : writer_(writer) {}

  void write(int stream, std::string_view bytes) override {
    writer_.write(stream == 1 ? STDERR_FILENO : STDOUT_FILENO, std::string(bytes));
  }
  void end(int) override {}
  bool full(int) const override { return writer_.full(); }
  void when_there_is_room(int, std::function<void()> action) override {
    writer_.when_there_is_room(std::move(action));
  }
  std::deque<std::string> last_lines() const override { return {}; }

private:
  output_writer& writer_;
};

remote_command_spec spec_of(const remote_command_options& options) {
  remote_command_spec spec;
  spec.ip = options.ip;
  spec.port = options.port;
  spec.links = link_settings::of(options.values);
  spec.links.credentials = std::make_shared<const tls_credentials>(options.secret);
  spec.links.connect_timeout = options.values.duration(setting::start_timeout);
  spec.links.connect_timeout_setting = options.values.cited(setting::start_timeout);
  spec.host = options.host;
  spec.slot.process.arguments = {"sh", "-c", "--", options.command};
  spec.slot.process.directory = options.directory;
  spec.slot.process.keeps_input = true;
  return spec;
}

} // namespace

int run_remote_command(const remote_command_options& options) {
  const auto signals = ending_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN); // a write to a closed pipe fails with EPIPE and does not end this program
  job_watch watch;
  std::string problem; // written on the loop before `watch` is told
  input_reader reader(STDIN_FILENO);
  int code = 0;
  {
    loop_system system;
    output_writer writer;
    auto spec = spec_of(options);
    spec.sink = std::make_shared<plain_output>(writer);
    spec.slot.warn = [&writer](const std::string& text) {
      writer.write(STDERR_FILENO, "farandole rsh: WARNING: " + text + "\n");
    };
    spec.input = system.get().spawn(standard_input, &reader);
    reader.start(
        [input = spec.input](std::string bytes) { caf::anon_send(input, input_read{std::move(bytes)}); });
    spec.finished = [&problem, done = watch.finished()](int result, const std::string& text) {
      problem = text;
      done(result);
    };
    const auto actor = system.get().spawn(remote_command, spec);
    writer.when_unread([actor] { caf::anon_send(actor, interrupt_atom::value, SIGPIPE); });
    caf::anon_send(actor, start_atom::value);
    code = watch.wait_for(actor);
    reader.stop(); // its thread sends to an actor, so it ends before the actor system
    caf::anon_send(spec.input, close_atom::value);
  }
  if (!problem.empty())
    std::cerr << "farandole rsh: " << printable(problem) << std::endl;
  return code;
}

} // namespace farandole
