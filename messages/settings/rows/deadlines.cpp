// Settings about how long things may take.
#include "messages/settings/setting_rows.hpp"

namespace farandole {

namespace {

using enum setting_type;

constexpr setting_row rows[] = {
    {.id = setting::start_timeout,
     .name = "start timeout",
     .type = duration,
     .unit = "s",
     .built_in = "30",
     .limit = largest_timeout_s,
     .environment = "HOROVOD_START_TIMEOUT",
     .flag = "--start-timeout",
     .doc = "Maximum time until all processes of a job have called init()."},
    {.id = setting::operation_timeout,
     .name = "operation timeout",
     .type = duration,
     .unit = "s",
     .built_in = "30",
     .limit = largest_timeout_s,
     .environment = "HOROVOD_GLOO_TIMEOUT_SECONDS",
     .flag = "--gloo-timeout-seconds",
     .yaml_key = "library_options.gloo_timeout_seconds",
     .doc = "Maximum time for a connection, and for a running operation to make no progress: an operation "
            "of any duration succeeds while its data moves. Progress is a step of at most 1 MiB in shared "
            "memory, any data over TCP, and a whole message of at most 1 MiB over UCX, MPI or Gloo (for "
            "Adasum, of HOROVOD_ADASUM_MPI_CHUNK_SIZE). NCCL and the libraries of other paths do not report "
            "progress: for them it limits each call, which has this time once, and once more for each GiB."},
    {.id = setting::link_timeout,
     .name = "link timeout",
     .type = duration,
     .unit = "s",
     .built_in = "30",
     .minimum = 1,
     .limit = day_s,
     .environment = "FARANDOLE_LINK_TIMEOUT",
     .doc = "Maximum silence of the host at the other end of a control connection. After it, the worker or "
            "the rendezvous there counts as lost."},
    {.id = setting::shutdown_timeout,
     .name = "shutdown timeout",
     .type = duration,
     .unit = "s",
     .built_in = "5",
     .limit = day_s,
     .environment = "FARANDOLE_SHUTDOWN_TIMEOUT",
     .doc = "Maximum time that shutdown() waits for the other workers to agree."},
    {.id = setting::exit_grace,
     .name = "exit grace",
     .type = duration,
     .unit = "s",
     .built_in = "2",
     .limit = day_s,
     .environment = "FARANDOLE_EXIT_GRACE",
     .doc = "Time between the failure of one worker and SIGTERM to the others, so that they can exit on "
            "their own."},
    {.id = setting::termination_grace,
     .name = "termination grace",
     .type = duration,
     .unit = "s",
     .built_in = "5",
     .limit = day_s,
     .environment = "FARANDOLE_TERMINATION_GRACE",
     .doc = "Time between SIGTERM and SIGKILL: to the workers at the end of a job, and to a worker that is "
            "removed before it has joined. Raise it if the script "
            "saves a checkpoint on SIGTERM. An agent that is interrupted or has lost the launcher uses the "
            "value in its own environment."},
    {.id = setting::discovery_timeout,
     .name = "discovery timeout",
     .type = duration,
     .unit = "s",
     .built_in = "30",
     .minimum = 0.01,
     .limit = day_s,
     .environment = "FARANDOLE_DISCOVERY_TIMEOUT",
     .doc = "Maximum run time of one call of the host discovery script. The launcher then kills it and "
            "treats the call as failed."},
    {.id = setting::discovery_interval,
     .name = "discovery interval",
     .type = duration,
     .unit = "s",
     .built_in = "1",
     .minimum = 0.01,
     .limit = day_s,
     .environment = "FARANDOLE_DISCOVERY_INTERVAL",
     .doc = "Time from the end of one call of the host discovery script to the next call."},
};

} // namespace

std::span<const setting_row> deadlines_settings() {
  return rows;
}

} // namespace farandole
