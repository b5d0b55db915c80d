// Settings about Spark.
#include "messages/settings/setting_rows.hpp"

namespace farandole {

namespace {

using enum setting_type;

constexpr setting_row rows[] = {
    {.id = setting::spark_start_timeout,
     .name = "Spark start timeout",
     .type = duration,
     .unit = "s",
     .built_in = "600",
     .limit = largest_timeout_s,
     .environment = "HOROVOD_SPARK_START_TIMEOUT",
     .needs = "Spark",
     .doc = "Maximum time until the Spark tasks have started."},
    {.id = setting::spark_python_path,
     .name = "Spark Python path",
     .type = text,
     .built_in = "",
     .environment = "HOROVOD_SPARK_PYTHONPATH",
     .needs = "Spark with MPI",
     .has_effect = false,
     .doc = "Prepended to sys.path in tasks."},
    {.id = setting::spark_work_dir,
     .name = "Spark working directory",
     .type = text,
     .built_in = "",
     .environment = "HOROVOD_SPARK_WORK_DIR",
     .needs = "Spark with MPI",
     .has_effect = false,
     .doc = "Working directory of tasks. Set by the task service."},
    {.id = setting::spark_use_local_rank_gpu,
     .name = "Spark uses local rank as GPU",
     .type = flag,
     .built_in = "0",
     .environment = "HOROVOD_SPARK_USE_LOCAL_RANK_GPU_INDEX",
     .nonzero_is_on = true,
     .needs = "Spark",
     .doc = "Ignores the GPU that Spark assigned and uses that of the local rank."},
    {.id = setting::databricks_file_timeout,
     .name = "Databricks file timeout",
     .type = duration,
     .unit = "s",
     .built_in = "30",
     .limit = largest_timeout_s,
     .environment = "DATABRICKS_FILE_AVAILABILITY_WAIT_TIMEOUT_SECS",
     .needs = "Spark",
     .has_effect = false,
     .doc = "Maximum time to wait for a file to appear in DBFS."},
};

} // namespace

std::span<const setting_row> spark_settings() {
  return rows;
}

} // namespace farandole
