#include "actors/launch/agent.hpp"

#include <signal.h>
#include <unistd.h>

#include <iostream>
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

int complain(const std::string& problem) {
  std::cerr << "farandole agent: " << printable(problem) << std::endl;
  return 1;
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
  {
    logger log(log_options_of(options.values));
    loop_system system;
    agent_spec spec;
    for (const auto& address : options.launcher)
      spec.launcher.emplace_back(address.ip, address.port);
    spec.hello = hello_of(options);
    spec.links = link_settings::of(options.values);
    spec.links.credentials = std::make_shared<const tls_credentials>(options.secret);
    spec.links.connect_timeout = options.values.duration(setting::start_timeout);
    spec.links.connect_timeout_setting = options.values.cited(setting::start_timeout);
    spec.slots = real_slots(system.get());
    spec.environment = own_environment();
    spec.own_variables = {std::string(row_of(setting::secret_descriptor).environment) + "=" +
                          std::to_string(secret->get())};
    spec.inherited = {secret->get()};
    spec.keeper = &*keeper;
    spec.own_address_towards = [values = options.values](const std::string& ip) {
      const auto own = own_address_towards(ip, values);
      return own ? *own : std::string();
    };
    spec.finished = [&problem, done = watch.finished()](const std::string& reason) {
      problem = reason;
      done(reason.empty() ? 0 : 1);
    };
    const auto actor = system.get().spawn(agent, spec);
    caf::anon_send(actor, start_atom::value);
    watch.wait_for(actor, options.watched_input, [actor] { caf::anon_send(actor, close_atom::value); });
  }
  return problem.empty() ? 0 : complain(problem);
}

} // namespace farandole
