// Settings about how long things may take.
#include "messages/settings/rows/setting_rows.hpp"

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
     .doc = "How long the processes of a job may take until all have called init()."},
    {.id = setting::operation_timeout,
     .name = "operation timeout",
     .type = duration,
     .unit = "s",
     .built_in = "30",
     .limit = largest_timeout_s,
     .environment = "HOROVOD_GLOO_TIMEOUT_SECONDS",
     .flag = "--gloo-timeout-seconds",
     .yaml_key = "library_options.gloo_timeout_seconds",
     .doc = "How long a connection or one step of a running operation may take."},
    {.id = setting::link_timeout,
     .name = "link timeout",
     .type = duration,
     .unit = "s",
     .built_in = "30",
     .minimum = 1,
     .limit = day_s,
     .environment = "FARANDOLE_LINK_TIMEOUT",
     .doc = "How long the host at the other end of a link may be silent, whether something was sent to it or "
            "not; then the member there, or the rendezvous, is lost."},
    {.id = setting::shutdown_timeout,
     .name = "shutdown timeout",
     .type = duration,
     .unit = "s",
     .built_in = "5",
     .limit = day_s,
     .environment = "FARANDOLE_SHUTDOWN_TIMEOUT",
     .doc = "How long shutdown() waits for the other members to agree."},
    {.id = setting::exit_grace,
     .name = "exit grace",
     .type = duration,
     .unit = "s",
     .built_in = "2",
     .limit = day_s,
     .environment = "FARANDOLE_EXIT_GRACE",
     .doc = "How long the launcher lets the other workers end by themselves after one has failed, before "
            "SIGTERM."},
    {.id = setting::discovery_timeout,
     .name = "discovery timeout",
     .type = duration,
     .unit = "s",
     .built_in = "30",
     .minimum = 0.01,
     .limit = day_s,
     .environment = "FARANDOLE_DISCOVERY_TIMEOUT",
     .doc =
         "How long one call of the host discovery script may take; then it is killed and counts as failed."},
};

} // namespace

std::span<const setting_row> deadlines_settings() {
  return rows;
}

} // namespace farandole
