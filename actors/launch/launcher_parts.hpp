// What the launcher consists of. Only the files that implement the launcher include it.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/event_loop/loop.hpp"
#include "actors/launch/hands.hpp"
#include "actors/launch/input_reader.hpp"
#include "actors/launch/job_watch.hpp"
#include "actors/launch/launcher.hpp"
#include "actors/launch/process_keeper.hpp"
#include "actors/launch/record_folder.hpp"
#include "actors/launch/record_gatherer.hpp"
#include "actors/launch/standard_input.hpp"
#include "actors/launch/worker_records.hpp"

namespace farandole {

/// Destroyed in reverse order: the writer writes all output before the actor system ends, and the keeper ends last.
struct launcher::parts {
  parts(process_keeper started, const launcher_options& options)
      : keeper(std::move(started)), values(options.values), log(log_options_of(options.values)) {}

  /// Tells the calling program, if there is one, that the launcher has waited too long.
  std::function<void()> timeout_reporter() const {
    return [caller = caller.get()] {
      if (caller)
        caller->timed_out();
    };
  }

  process_keeper keeper;
  settings values;
  logger log;
  job_watch watch;
  input_reader input{STDIN_FILENO};
  record_writer record_files{keeper}; ///< its thread sends to the gatherer, which ends before the system does
  loop_system system;
  output_writer writer;
  std::shared_ptr<worker_records> records = std::make_shared<worker_records>();
  record_gatherer_actor gatherer; ///< null: this process starts no workers
  record_explainer explain;
  const std::string record_folders = record_folders_of_this_user();
  std::unique_ptr<caller_output> caller; ///< null if no program has called this launcher
  caller_input_actor caller_input;
  std::int32_t input_slot = -1;
  standard_input_actor standard_input; ///< null if no slot receives the standard input
  agent_registry_actor agents;         ///< null: there are no other hosts
  std::uint16_t agent_port = 0;
  link_settings agent_links;
  std::string placer_name;
  std::size_t workers = 1;
  caf::actor rendezvous; ///< the rendezvous, or the remote_rendezvous actor if it runs in another process
  std::uint16_t port = 0;
  std::vector<failed_host> failed; ///< hosts that failed, from the journal of an earlier launcher
};

} // namespace farandole
