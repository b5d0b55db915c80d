// Settings about the tuner.
#include "messages/settings/setting_rows.hpp"

namespace farandole {

namespace {

using enum setting_type;

constexpr setting_row rows[] = {
    {.id = setting::autotune_log,
     .name = "autotune log",
     .type = text,
     .built_in = "",
     .environment = "HOROVOD_AUTOTUNE_LOG",
     .flag = "--autotune-log-file",
     .yaml_key = "autotune.log_file",
     .needs = "tuner",
     .has_effect = false,
     .doc = "CSV file that rank 0 writes the tuner's samples to."},
    {.id = setting::autotune_warmup_samples,
     .name = "autotune warm-up samples",
     .type = integer,
     .built_in = "3",
     .limit = largest_int,
     .environment = "HOROVOD_AUTOTUNE_WARMUP_SAMPLES",
     .flag = "--autotune-warmup-samples",
     .yaml_key = "autotune.warmup_samples",
     .needs = "tuner",
     .has_effect = false,
     .doc = "Number of first samples to discard."},
    {.id = setting::autotune_steps_per_sample,
     .name = "autotune steps per sample",
     .type = integer,
     .built_in = "10",
     .limit = largest_int,
     .environment = "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE",
     .flag = "--autotune-steps-per-sample",
     .yaml_key = "autotune.steps_per_sample",
     .needs = "tuner",
     .has_effect = false,
     .doc = "Number of training steps per sample."},
    {.id = setting::autotune_bayes_samples,
     .name = "autotune Bayesian samples",
     .type = integer,
     .built_in = "20",
     .limit = largest_int,
     .environment = "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
     .flag = "--autotune-bayes-opt-max-samples",
     .yaml_key = "autotune.bayes_opt_max_samples",
     .needs = "tuner",
     .has_effect = false,
     .doc = "Maximum number of samples for each combination of switches."},
    {.id = setting::autotune_noise,
     .name = "autotune noise",
     .type = number,
     .built_in = "0.8",
     .limit = 1,
     .environment = "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
     .flag = "--autotune-gaussian-process-noise",
     .yaml_key = "autotune.gaussian_process_noise",
     .needs = "tuner",
     .has_effect = false,
     .doc = "Noise level that the tuner assumes for its samples."},
};

} // namespace

std::span<const setting_row> tuner_settings() {
  return rows;
}

} // namespace farandole
