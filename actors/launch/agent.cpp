#include "actors/launch/agent.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string_view>
#include <utility>

#include "actors/event_loop/loop.hpp"
#include "actors/launch/agent_actor.hpp"
#include "actors/launch/job_watch.hpp"
#include "actors/launch/process.hpp"
#include "actors/launch/process_keeper.hpp"
#include "actors/rendezvous/job_secret.hpp"
#include "actors/rendezvous/this_host.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

agent_hello hello_of(const agent_options& options) {
  agent_hello hello;
  hello.version = options.version;
  hello.program = options.program;
  hello.host = options.host.empty() ? host_name() : options.host;
  hello.machine = host_identity(options.values);
  if (auto addresses = addresses_for_others())
    hello.addresses = std::move(*addresses);
  hello.cores = options.cores;
  hello.slots = options.slots;
  return hello;
}

/// The descriptor of the socket to a process manager (PMI_FD), where it is open.
std::optional<int> process_manager_socket() {
  const char* text = std::getenv("PMI_FD");
  const std::string_view digits = text ? text : "";
  int number = -1;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_open = problem == std::errc() && end == digits.data() + digits.size() && number > 2 &&
                       ::fcntl(number, F_GETFD) >= 0;
  return is_open ? std::optional(number) : std::nullopt;
}

/// "NAME=value" for workers of a host from which ssh forwards a port to the rendezvous.
std::vector<std::string> forwarding_variables(std::uint16_t port) {
  if (port == 0)
    return {};
  return {std::string(row_of(setting::rendezvous_address).environment) + "=127.0.0.1",
          std::string(row_of(setting::rendezvous_port).environment) + "=" + std::to_string(port)};
}

void print(const std::string& text) {
  std::cerr << "farandole agent: " << printable(text) << std::endl;
}

int complain(const std::string& problem, int code = 1) {
  print(problem);
  return code;
}

} // namespace

int run_agent(const agent_options& options) {
  const auto signals = ending_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN); // a write to a closed pipe fails with EPIPE and does not end the agent
  const auto keeper = process_keeper::start();
  if (!keeper)
    return complain(keeper.error().text);
  const auto secret = shared_secret(options.secret);
  if (!secret)
    return complain(secret.error().text);
  job_watch watch;
  std::string problem; // written on the loop before `watch` is told
  int failure_code = 1;
  {
    logger log(log_options_of(options.values));
    loop_system system;
    agent_spec spec;
    for (const auto& address : options.launcher)
      spec.launcher.emplace_back(address.ip, address.port);
    spec.hello = hello_of(options);
    spec.links = link_settings::of(options.values);
    spec.times = job_ending::times::of(options.values);
    spec.links.credentials = std::make_shared<const tls_credentials>(options.secret);
    spec.links.connect_timeout = options.values.duration(setting::start_timeout);
    spec.links.connect_timeout_setting = options.values.cited(setting::start_timeout);
    if (options.dial_timeout.count() > 0) {
      spec.links.connect_timeout = options.dial_timeout;
      spec.links.connect_timeout_setting =
          std::to_string(options.dial_timeout.count()) + " s (--dial-timeout)";
    }
    spec.slots = real_slots(system.get());
    spec.environment = own_environment();
    spec.own_variables = {std::string(row_of(setting::secret_descriptor).environment) + "=" +
                          std::to_string(secret->get())};
    for (auto& entry : forwarding_variables(options.forwarded_rendezvous))
      spec.own_variables.push_back(std::move(entry));
    spec.inherited = {secret->get()};
    // Where mpirun has started the agent, its worker can use MPI in place of it.
    if (const auto channel = process_manager_socket())
      spec.inherited.push_back(*channel);
    spec.keeper = &*keeper;
    spec.own_address_towards = [values = options.values](const std::string& ip) {
      const auto own = own_address_towards(ip, values);
      return own ? *own : std::string();
    };
    spec.finished = [&problem, done = watch.finished()](const std::string& reason) {
      problem = reason;
      done(reason.empty() ? 0 : 1);
    };
    // A command that the launcher has started keeps the input of the agent open.
    spec.waits_for_launcher = options.watched_input < 0;
    if (!spec.waits_for_launcher)
      spec.unreachable = [&failure_code] { failure_code = launcher_unreachable_code; };
    if (options.ends_with_worker)
      spec.worker_failed = [&failure_code] { failure_code = worker_failed_code; };
    spec.warn = [](const std::string& notice) { print(notice); };
    const auto actor = system.get().spawn(agent, spec);
    caf::anon_send(actor, start_atom::value);
    watch.wait_for(actor, options.watched_input, [actor] { caf::anon_send(actor, close_atom::value); });
  }
  return problem.empty() ? 0 : complain(problem, failure_code);
}

} // namespace farandole
