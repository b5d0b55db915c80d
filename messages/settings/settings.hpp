// The table of all settings: name, type, default, range, environment variable, flag, YAML key, doc. The CLI's
// help, the config file, `farandole check` and the docs page are generated from it. A flag takes precedence
// over the file, the file over the environment, and the environment over the default. Each value records its
// source.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole {

enum class setting : std::uint16_t {
  // How members find each other.
  rank,
  size,
  local_rank,
  local_size,
  cross_rank,
  cross_size,
  host_name,
  rendezvous_address,
  rendezvous_port,
  interface,
  secret_descriptor,
  secret_file,
  secret,
  host_id,
  port_range,
  // Shared by the whole job: the rendezvous' values take precedence.
  fusion_threshold,
  cycle_time,
  cache_capacity,
  fast_path,
  fast_path_limit,
  inline_limit,
  fast_path_area,
  relay_ranks,
  relay_buckets,
  segment_chunk,
  segment_slots,
  require_secure,
  cpu_path,
  gpu_path,
  gpu_operations,
  gpu_allreduce,
  gpu_allgather,
  gpu_broadcast,
  gpu_alltoall,
  gpu_reducescatter,
  path_library,
  trusted_network,
  disable_group_fusion,
  // Deadlines.
  start_timeout,
  operation_timeout,
  link_timeout,
  shutdown_timeout,
  exit_grace,
  termination_grace,
  discovery_timeout,
  discovery_interval,
  // Watching.
  stall_check_disable,
  stall_warning_time,
  stall_shutdown_time,
  timeline,
  timeline_mark_cycles,
  autotune,
  log_level,
  log_hide_time,
  log_format,
  thread_affinity,
  elastic_events,
  recorder_events,
  recorder_file,
  recorder_descriptor,
  trace,
  trace_size,
  // Read by other parts or accepted for compatibility: see the table.
  // How a job is launched and which libraries it may use.
  controller,
  cpu_operations,
  remote_shell,
  remote_program,
  omp_threads,
  elastic,
  elastic_timeout,
  regroup_timeout,
  stuck_timeout,
  rendezvous_timeout,
  dynamic_process_sets,
  hierarchical_allreduce,
  hierarchical_allgather,
  torus_allreduce,
  adasum_chunk,
  mpi_threads_disable,
  ccl_cache,
  nccl_streams,
  batch_copies,
  async_completion,
  xla_operations,
  safe_objects,
  nvtx_disable,
  // The tuner.
  autotune_log,
  autotune_warmup_samples,
  autotune_steps_per_sample,
  autotune_bayes_samples,
  autotune_noise,
  // Spark.
  spark_start_timeout,
  spark_python_path,
  spark_work_dir,
  spark_use_local_rank_gpu,
  databricks_file_timeout,
};

enum class setting_source : std::uint8_t { built_in, environment, file, flag, rendezvous };
std::string_view to_string(setting_source source);

enum class setting_type : std::uint8_t { flag, integer, number, text, duration };

using setting_content = std::variant<bool, std::int64_t, double, std::string, std::chrono::nanoseconds>;

struct setting_row {
  setting id;
  std::string_view name; ///< "fusion threshold"
  setting_type type;
  std::string_view unit = {}; ///< of the environment variable's number: "bytes", "ms", "s", ""
  std::string_view built_in;  ///< default, as text in that unit
  double minimum = 0;         ///< numbers only
  double limit = 0;
  std::string_view choices = {};                     ///< text only: "a|b|c", empty for anything
  bool (*is_valid)(std::string_view text) = nullptr; ///< text only, without choices; null: all texts are
  std::string_view form = {}; ///< text only: "two ports, as in 1-2", if not all are valid
  std::string_view environment;
  std::string_view flag = {};     ///< "--fusion-threshold-mb", empty if none
  std::string_view flag_off = {}; ///< "--no-autotune": switches a flag off, empty if none
  double flag_factor = 1;         ///< flag and YAML value × this = value in `unit`
  std::string_view yaml_key = {}; ///< "params.fusion_threshold_mb", empty if none
  bool yaml_negated = false;      ///< the key's true switches the flag off
  bool job_wide = false;          ///< handed out with the welcome
  bool nonzero_is_on = false;     ///< flag: a negative number is on as well
  bool forgiving = false;         ///< an unknown choice is replaced by the default instead of refused
  bool confidential = false;      ///< shown() hides the value
  std::string_view needs = {};    ///< the component without which it is accepted but has no effect
  /// false: nothing in this build reads it. It is accepted, and given_without_effect() names it.
  bool has_effect = true;
  std::string_view doc;
};

std::span<const setting_row> setting_table();
const setting_row& row_of(setting id);
/// Whole numbers in full: 1048576, never 1.048576e+06.
std::string shown_number(double value);

/// Looks up an environment variable.
using environment_lookup = std::function<std::optional<std::string>(std::string_view)>;
environment_lookup process_environment();

/// The sources of values, in ascending precedence. Texts are as typed; keys of `file` are YAML keys ("params.x"),
/// keys of `flags` are flags ("--x").
struct setting_sources {
  environment_lookup environment;
  std::map<std::string, std::string> file;
  std::map<std::string, std::string> flags;
};

/// A value for every row. Copyable; immutable but for `override_with`.
class settings {
public:
  /// `invalid_argument` naming setting, value and range when one is out of range. An environment variable
  /// that does not parse at all counts as unset, and a warning says so (`warnings()`). A flag or a key that
  /// no row has, and a flag or a value in the file that does not parse, were written for this job: they are
  /// refused.
  static expected<settings> load(const setting_sources& sources);
  /// Defaults only.
  static settings built_in();

  bool flag(setting id) const;
  std::int64_t integer(setting id) const; ///< in the row's unit
  double number(setting id) const;
  const std::string& text(setting id) const;
  std::chrono::nanoseconds duration(setting id) const;

  setting_source source(setting id) const;
  bool is_set(setting id) const { return source(id) != setting_source::built_in; }
  /// For users, with its unit: "134217728 bytes". Hides a confidential value.
  std::string shown(setting id) const;
  /// As the environment variable spells it: "134217728", "1", "gloo".
  std::string plain(setting id) const;
  /// "operation timeout (HOROVOD_GLOO_TIMEOUT_SECONDS) = 30 s": for the error of a deadline that passed.
  std::string cited(setting id) const;

  /// Sets one value from text in the row's unit.
  error assign(setting id, std::string_view text, setting_source source);
  /// Job-wide values by name, to send and to adopt; override_with() returns a line for each that differed here.
  std::vector<std::pair<std::string, std::string>> job_wide() const;
  std::vector<std::string> override_with(std::span<const std::pair<std::string, std::string>> values);

  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Settings that were given although nothing in this build reads them, each by the flag, the key of the
  /// config file or the variable that gave it. A switch that was given its default asks for nothing.
  std::vector<std::string> given_without_effect() const;

private:
  settings() = default;
  error assign_typed(const setting_row& row, setting_source source, std::string_view name,
                     std::string_view text, double factor);
  error load_environment(const environment_lookup& lookup);
  error load_file(const std::map<std::string, std::string>& file);
  error load_flags(const std::map<std::string, std::string>& flags);

  std::vector<setting_content> values_;
  std::vector<setting_source> sources_;
  std::vector<std::string> warnings_;
};

/// The one line that names them all: "--a, b.c (config file) and X have no effect in
/// this build". Empty if there are none.
std::string no_effect_warning(std::span<const std::string> names);

} // namespace farandole
