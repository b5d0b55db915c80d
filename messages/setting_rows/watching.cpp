// Settings about what is told of a job while it runs.
#include "messages/setting_rows/setting_rows.hpp"

namespace farandole {

namespace {

using enum setting_type;

constexpr setting_row rows[] = {
    {.id = setting::stall_check_disable,
     .name = "disable stall check",
     .type = flag,
     .built_in = "0",
     .environment = "HOROVOD_STALL_CHECK_DISABLE",
     .flag = "--no-stall-check",
     .flag_off = "--stall-check",
     .yaml_key = "stall_check.enabled",
     .yaml_negated = true,
     .doc = "Does not look for tensors that only some ranks have submitted."},
    {.id = setting::stall_warning_time,
     .name = "stall warning time",
     .type = duration,
     .unit = "s",
     .built_in = "60",
     .most = largest_timeout_s,
     .environment = "HOROVOD_STALL_CHECK_TIME_SECONDS",
     .flag = "--stall-check-warning-time-seconds",
     .yaml_key = "stall_check.warning_time_seconds",
     .doc = "How long a tensor may wait for the other ranks before a warning names them."},
    {.id = setting::stall_shutdown_time,
     .name = "stall shutdown time",
     .type = duration,
     .unit = "s",
     .built_in = "0",
     .most = largest_timeout_s,
     .environment = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
     .flag = "--stall-check-shutdown-time-seconds",
     .yaml_key = "stall_check.shutdown_time_seconds",
     .doc = "How long a tensor may wait before the job is shut down. 0: for ever; also where it is not "
            "longer than "
            "the warning time."},
    {.id = setting::timeline,
     .name = "timeline",
     .type = text,
     .built_in = "",
     .environment = "HOROVOD_TIMELINE",
     .flag = "--timeline-filename",
     .yaml_key = "timeline.filename",
     .needs = "timeline",
     .doc = "File that rank 0 writes its timeline to; DYNAMIC: started from the program."},
    {.id = setting::timeline_mark_cycles,
     .name = "timeline mark cycles",
     .type = flag,
     .built_in = "0",
     .environment = "HOROVOD_TIMELINE_MARK_CYCLES",
     .flag = "--timeline-mark-cycles",
     .flag_off = "--no-timeline-mark-cycles",
     .yaml_key = "timeline.mark_cycles",
     .needs = "timeline",
     .doc = "Marks each round of bundling in the timeline."},
    {.id = setting::autotune,
     .name = "autotune",
     .type = flag,
     .built_in = "0",
     .environment = "HOROVOD_AUTOTUNE",
     .flag = "--autotune",
     .flag_off = "--no-autotune",
     .yaml_key = "autotune.enabled",
     .needs = "tuner",
     .doc = "Searches for better parameters while the job runs."},
    {.id = setting::log_level,
     .name = "log level",
     .type = text,
     .built_in = "warning",
     .choices = "trace|debug|info|warning|error|fatal",
     .environment = "HOROVOD_LOG_LEVEL",
     .flag = "--log-level",
     .yaml_key = "logging.level",
     .forgiving = true,
     .doc = "Least level of what is logged."},
    {.id = setting::log_hide_time,
     .name = "log hide time",
     .type = flag,
     .built_in = "0",
     .environment = "HOROVOD_LOG_HIDE_TIME",
     .flag = "--log-without-timestamp",
     .flag_off = "--log-with-timestamp",
     .yaml_key = "logging.with_timestamp",
     .yaml_negated = true,
     .doc = "Logs without the time of day."},
    {.id = setting::thread_affinity,
     .name = "thread affinity",
     .type = text,
     .built_in = "",
     .environment = "HOROVOD_THREAD_AFFINITY",
     .flag = "--thread-affinity",
     .yaml_key = "library_options.thread_affinity",
     .doc = "Comma list of core ids: the runtime's threads of local rank i are pinned to entry i."},
};

} // namespace

std::span<const setting_row> watching_settings() {
  return rows;
}

} // namespace farandole
