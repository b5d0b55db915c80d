// The hosts of a simulated launch: the placer's commands that start agents, the agents, their workers, and the faults
// that hit a host. The agents are real; all else is drawn from the seed.
#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/launch/agent_actor.hpp"
#include "actors/launch/slot.hpp"
#include "messages/wire/envelope.hpp"
#include "tests/world/dice.hpp"
#include "tests/world/launch_job.hpp"
#include "tests/world/launch_worker.hpp"
#include "tests/world/processes.hpp"
#include "tests/world/simulated_net.hpp"
#include "tests/world/simulation.hpp"

namespace farandole::testing {

class launch_hosts {
public:
  /// TCP keepalive ends links over which nothing passes for this time.
  static constexpr std::chrono::seconds link_timeout{30};

  using workers_by_slot = std::map<std::int32_t, std::shared_ptr<worker_process>>;

  /// `problem` is called with each breach of a rule. All arguments must outlive the hosts.
  launch_hosts(const launch_options& options, simulation& world, simulated_net& net,
               std::function<void(std::string)> problem);

  static std::string name_of(std::int32_t host) { return "host" + std::to_string(host); }

  /// The address of a host in one of its networks.
  static std::string address_of(std::int32_t host, std::int32_t network);
  /// Whether a connection from one host to an address of another one succeeds; drawn from the seed.
  bool reaches(std::int32_t from, std::int32_t host, std::int32_t network) const;

  /// The port on which the launcher waits for agents.
  void launcher_listens_at(std::uint16_t port) { port_ = port; }
  /// A command of the placer, which is to start the agent of a host. Has the interface of a slot.
  slot_actor start_command(const slot_spec& command, const std::shared_ptr<output_sink>& sink,
                           const slot_owner_actor& owner);
  /// A message has reached the agent in this process.
  void received(process_id agent, const envelope& message);

  /// False if the host has no agent, so that nothing happens.
  bool strike(const planned_fault& fault);
  /// The commands of the placer end with the launcher, whose end of their input is closed.
  void lose_launcher();

  /// The last worker of each slot.
  const workers_by_slot& workers() const { return workers_; }
  std::size_t agents() const { return agents_.size(); }
  /// The number of workers that have run.
  std::size_t workers_run() const { return workers_run_; }

  /// Reports each agent, worker and, unless the launcher was killed, command that has not ended.
  void check_end(bool launcher_killed) const;
  void take_down();

private:
  class host_links;

  /// The agent of a host, with the command that started it.
  struct started_agent {
    process_id process = 0;
    std::int32_t host = 0;
    agent_actor actor;
    bool alive = true;
    std::set<std::int32_t> ran;         ///< slots whose processes it has started
    std::optional<envelope> last_start; ///< the last request to start a process
    std::vector<std::shared_ptr<worker_process>> workers;
    std::vector<caf::actor> slots;
    std::function<void(int code)> command_ends; ///< the command that started it
  };

  process_id start_agent(std::int32_t host, std::function<void(int)> command_ends);
  slot_actor start_worker(started_agent& agent, const slot_spec& spec,
                          const std::shared_ptr<output_sink>& sink, const slot_owner_actor& owner);
  void agent_finished(started_agent& agent, const std::string& reason);
  void gone(started_agent& agent, int code);
  void end_input(process_id agent);
  void strike(const planned_fault& fault, started_agent& agent);
  void kill(started_agent& agent);
  void cut_off(process_id agent, std::chrono::milliseconds lasts);

  const launch_options& options_;
  simulation& world_;
  simulated_net& net_;
  std::function<void(std::string)> problem_;
  dice draw_;
  std::uint16_t port_ = 0;
  std::map<process_id, started_agent> agents_;
  std::vector<caf::actor> commands_;
  std::size_t running_commands_ = 0;
  workers_by_slot workers_;
  std::size_t workers_run_ = 0;
};

} // namespace farandole::testing
