#include "bindings/c/translation.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "collectives/operation.hpp"
#include "messages/values/dtype.hpp"
#include "messages/values/signature.hpp"

namespace farandole {

namespace {

static_assert(FARANDOLE_SHUT_DOWN == static_cast<int>(error_kind::shut_down) && error_kind_count == 12);
static_assert(FARANDOLE_BOOL == static_cast<int>(dtype::boolean) && dtype_count == 11);
static_assert(FARANDOLE_PRODUCT == static_cast<int>(reduce_op::product) && reduce_op_count == 6);
static_assert(FARANDOLE_JOIN == static_cast<int>(operation::join));
static_assert(FARANDOLE_REDUCESCATTER == static_cast<int>(operation::reducescatter) && operation_count == 7);
static_assert(FARANDOLE_COMPLETION_CALLBACK == static_cast<int>(completion_mode::callback));

static_assert(FARANDOLE_READY_IN_CONTEXT == static_cast<int>(device_readiness::context) &&
              device_readiness_count == 3);

// The members of the first version in which the struct states its size. It does not grow with later ones.
constexpr std::size_t first_size = offsetof(farandole_submission, readiness) + sizeof(std::int32_t);
// No version will be longer. A caller of an older layout has a pointer where the size is now.
constexpr std::size_t largest_size = 1U << 16U;

bool moves_a_tensor(operation id) {
  return row_of(id).moves_tensor;
}

bool allocates(operation id) {
  return row_of(id).first_dim_free();
}

// Whether the caller has to provide memory for the output.
bool needs_output(operation id) {
  return !row_of(id).has_rows();
}

error bad_number(const farandole_submission& given, const char* text, std::int32_t number) {
  return refuse(std::string(given.name) + ": there is no " + text + " " + std::to_string(number));
}

error check_extents(const farandole_submission& given, dtype type, std::int64_t& elements) {
  if (given.dimensions > 0 && !given.shape)
    return refuse(std::string(given.name) + ": shape is NULL, dimensions is not 0");
  // The product of all nonzero extents, so that a zero does not hide an overflow, in any order of the extents.
  std::int64_t limit = std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(size_of(type));
  std::int64_t product = 1;
  elements = 1;
  for (std::size_t i = 0; i < given.dimensions; ++i) {
    auto extent = given.shape[i];
    if (extent < 0)
      return refuse(std::string(given.name) + ": extent " + std::to_string(extent) + " is negative");
    if (extent != 0 && product > limit / extent)
      return refuse(std::string(given.name) + ": the shape has more bytes than memory can have");
    product *= extent != 0 ? extent : 1;
    elements *= extent != 0 ? extent : 0;
  }
  return {};
}

error check_buffers(const farandole_submission& given, operation id, std::int64_t elements) {
  if (elements == 0)
    return {};
  if (!given.input)
    return refuse(std::string(given.name) + ": input is NULL");
  if (needs_output(id) && !given.output)
    return refuse(std::string(given.name) + ": output is NULL");
  return {};
}

error translate_memory(const farandole_submission& given, submission& target) {
  if (given.device < -1)
    return refuse(std::string(given.name) + ": there is no GPU " + std::to_string(given.device) +
                  "; -1 means host memory");
  if (given.readiness < 0 || static_cast<std::uint32_t>(given.readiness) >= device_readiness_count)
    return bad_number(given, "readiness", given.readiness);
  target.signature.memory = given.device < 0 ? memory_kind::host : memory_kind::device;
  target.memory = {given.device, given.stream, static_cast<device_readiness>(given.readiness)};
  return {};
}

error check_splits(const farandole_submission& given) {
  if (given.split_count > 0 && !given.splits)
    return refuse(std::string(given.name) + ": splits is NULL, split_count is not 0");
  return {};
}

} // namespace

error refuse(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

expected<std::vector<std::int32_t>> ranks_from(const farandole_process_set& given) {
  if (given.rank_count > 0 && !given.ranks)
    return refuse("a process set: ranks is NULL, rank_count is not 0");
  return std::vector<std::int32_t>(given.ranks, given.ranks + given.rank_count);
}

expected<options> options_from(const farandole_options& given) {
  options run_options;
  run_options.read_environment = given.read_environment != 0;
  if (given.setting_count > 0 && !given.settings)
    return refuse("farandole_start: settings is NULL, setting_count is not 0");
  for (std::size_t i = 0; i < given.setting_count; ++i) {
    auto& setting = given.settings[i];
    if (!setting.name || !setting.value)
      return refuse("farandole_start: setting " + std::to_string(i) + " has no name or no value");
    run_options.settings[setting.name] = setting.value;
  }
  if (given.process_set_count > 0 && !given.process_sets)
    return refuse("farandole_start: process_sets is NULL, process_set_count is not 0");
  for (std::size_t i = 0; i < given.process_set_count; ++i) {
    auto ranks = ranks_from(given.process_sets[i]);
    if (!ranks)
      return ranks.error();
    run_options.process_sets.push_back(std::move(*ranks));
  }
  if (given.secret)
    run_options.secret.assign(static_cast<const char*>(given.secret), given.secret_bytes);
  run_options.progress = given.progress;
  run_options.state_generation = given.state_generation;
  run_options.epoch = given.epoch;
  if (given.secret && run_options.secret.empty())
    return refuse("farandole_start: the secret is empty; give NULL to have it taken from the environment");
  return run_options;
}

error translate(const farandole_submission& caller, submission& target) {
  if (caller.bytes < first_size || caller.bytes > largest_size)
    return refuse("farandole_submission.bytes is " + std::to_string(caller.bytes) +
                  "; initialise the struct with FARANDOLE_SUBMISSION_INIT");
  // Members that the caller's version of the header does not have get their defaults.
  farandole_submission given = FARANDOLE_SUBMISSION_INIT;
  std::memcpy(&given, &caller, std::min(caller.bytes, sizeof given));
  if (!given.name)
    return refuse("a tensor's name is NULL");
  if (given.operation < 0 || static_cast<std::size_t>(given.operation) >= operation_count)
    return bad_number(given, "operation", given.operation);
  auto id = static_cast<operation>(given.operation);
  auto& wanted = target.signature;
  target.name = given.name;
  target.set = given.set;
  if (given.completion_mode < FARANDOLE_COMPLETION_ANY ||
      given.completion_mode > FARANDOLE_COMPLETION_CALLBACK)
    return bad_number(given, "completion mode", given.completion_mode);
  target.completion = static_cast<completion_mode>(given.completion_mode);
  wanted.operation = id;
  if (!moves_a_tensor(id))
    return {};
  auto type = dtype_from(static_cast<std::uint32_t>(given.dtype));
  if (!type)
    return bad_number(given, "dtype", given.dtype);
  std::int64_t elements = 0;
  if (auto problem = check_extents(given, *type, elements))
    return problem;
  if (auto problem = check_buffers(given, id, elements))
    return problem;
  if (auto problem = check_splits(given))
    return problem;
  wanted.dtype = *type;
  if (given.dimensions > 0)
    wanted.shape.assign(given.shape, given.shape + given.dimensions);
  if (row_of(id).reduces) {
    auto reduction = reduce_op_from(static_cast<std::uint32_t>(given.reduce_op));
    if (!reduction)
      return bad_number(given, "reduce_op", given.reduce_op);
    wanted.reduce_op = *reduction;
    wanted.prescale = given.prescale;
    wanted.postscale = given.postscale;
  }
  if (row_of(id).has_root)
    wanted.root = given.root;
  if (auto problem = translate_memory(given, target))
    return problem;
  target.input = static_cast<const std::byte*>(given.input);
  target.output = allocates(id) ? nullptr : static_cast<std::byte*>(given.output);
  target.splits = {given.splits, given.split_count};
  return {};
}

} // namespace farandole
