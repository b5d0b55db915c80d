// Implements the C interface over the C++ one: checks the properties that C cannot express (numbers that must name an
// enumerator, pointers that may be null, extents that may overflow), forwards the call, and turns errors and
// exceptions into a status and a text.
#include <farandole/farandole.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>

#include "bindings/c/wrapped.hpp"
#include "collectives/operation.hpp"
#include "messages/values/printable.hpp"

using namespace farandole;

farandole_status farandole::report(const error& problem, farandole_error* reason) {
  auto status = static_cast<farandole_status>(problem.kind);
  if (!reason)
    return status;
  const auto text = printable(problem.text);
  auto length = std::min<std::size_t>(text.size(), FARANDOLE_TEXT_BYTES - 1);
  // Never cut inside a UTF-8 character.
  while (length < text.size() && length > 0 && (text[length] & 0xC0) == 0x80)
    --length;
  std::memcpy(reason->text, text.data(), length);
  reason->text[length] = '\0';
  reason->status = status;
  return status;
}

namespace {

static_assert(FARANDOLE_SHUT_DOWN == static_cast<int>(error_kind::shut_down) && error_kind_count == 12);
static_assert(FARANDOLE_BOOL == static_cast<int>(dtype::boolean) && dtype_count == 11);
static_assert(FARANDOLE_PRODUCT == static_cast<int>(reduce_op::product) && reduce_op_count == 6);
static_assert(FARANDOLE_JOIN == static_cast<int>(operation::join));
static_assert(FARANDOLE_REDUCESCATTER == static_cast<int>(operation::reducescatter) && operation_count == 7);
static_assert(FARANDOLE_COMPLETION_CALLBACK == static_cast<int>(completion_mode::callback));

error refuse(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

// Runs one call of the interface. Exceptions of the standard library end here; memory and threads can run out.
template <class Call>
farandole_status guarded(farandole_error* reason, Call call) noexcept {
  try {
    return report(call(), reason);
  } catch (const std::exception& problem) {
    // Memory may have run out, so the text is copied without an allocation.
    if (reason) {
      reason->status = FARANDOLE_UNKNOWN;
      std::strncpy(reason->text, problem.what(), FARANDOLE_TEXT_BYTES - 1);
      reason->text[FARANDOLE_TEXT_BYTES - 1] = '\0';
    }
    return FARANDOLE_UNKNOWN;
  }
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

error check_splits(const farandole_submission& given) {
  if (given.split_count > 0 && !given.splits)
    return refuse(std::string(given.name) + ": splits is NULL, split_count is not 0");
  return {};
}

// `target` refers to memory of `given`.
error translate(const farandole_submission& given, submission& target) {
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
  target.input = static_cast<const std::byte*>(given.input);
  target.output = allocates(id) ? nullptr : static_cast<std::byte*>(given.output);
  target.splits = {given.splits, given.split_count};
  return {};
}

// Owns handles until all of them are made, so that the caller gets the handles of a whole group or none.
using owned_handle = std::unique_ptr<farandole_handle>;

} // namespace

farandole_status farandole_start(const farandole_options* given, farandole_runtime** target,
                                 farandole_error* reason) {
  return guarded(reason, [&]() -> error {
    *target = nullptr;
    auto run_options = given ? options_from(*given) : expected<options>(options{});
    if (!run_options)
      return run_options.error();
    auto built = std::make_unique<farandole_runtime>();
    auto member = runtime::start(*run_options);
    if (!member)
      return member.error();
    built->member = std::move(*member);
    *target = built.release();
    return {};
  });
}

void farandole_shutdown(farandole_runtime* runtime) {
  runtime->member->shutdown();
}
void farandole_free(farandole_runtime* runtime) {
  delete runtime;
}

int farandole_alive(const farandole_runtime* runtime) {
  return runtime->member->alive() ? 1 : 0;
}
int32_t farandole_rank(const farandole_runtime* runtime) {
  return runtime->member->rank();
}
int32_t farandole_size(const farandole_runtime* runtime) {
  return runtime->member->size();
}
int32_t farandole_local_rank(const farandole_runtime* runtime) {
  return runtime->member->local_rank();
}
int32_t farandole_local_size(const farandole_runtime* runtime) {
  return runtime->member->local_size();
}
int32_t farandole_cross_rank(const farandole_runtime* runtime) {
  return runtime->member->cross_rank();
}
int32_t farandole_cross_size(const farandole_runtime* runtime) {
  return runtime->member->cross_size();
}
int farandole_is_homogeneous(const farandole_runtime* runtime) {
  return runtime->member->is_homogeneous() ? 1 : 0;
}

uint64_t farandole_generation(const farandole_runtime* runtime) {
  return runtime->member->generation();
}
uint64_t farandole_epoch(const farandole_runtime* runtime) {
  return runtime->member->epoch();
}
int farandole_must_sync(const farandole_runtime* runtime) {
  return runtime->member->must_sync() ? 1 : 0;
}
int farandole_joined_late(const farandole_runtime* runtime) {
  return runtime->member->joined_late() ? 1 : 0;
}
void farandole_membership_change(const farandole_runtime* runtime, uint64_t* changes, int* removals_only) {
  const auto [count, only_removals] = runtime->member->membership_change();
  *changes = count;
  *removals_only = only_removals ? 1 : 0;
}
void farandole_withdraw(farandole_runtime* runtime) {
  runtime->member->withdraw();
}

farandole_status farandole_submit(farandole_runtime* runtime, const farandole_submission* value,
                                  farandole_handle** target, farandole_error* reason) {
  return guarded(reason, [&]() -> error {
    *target = nullptr;
    submission asked;
    if (auto problem = translate(*value, asked))
      return problem;
    auto made = std::make_unique<farandole_handle>();
    auto accepted = runtime->member->submit(asked);
    if (!accepted)
      return accepted.error();
    made->operation = std::move(*accepted);
    *target = made.release();
    return {};
  });
}

farandole_status farandole_submit_group(farandole_runtime* runtime, const farandole_submission* value,
                                        size_t count, farandole_handle** targets, farandole_error* reason) {
  return guarded(reason, [&]() -> error {
    std::vector<submission> asked(count);
    std::vector<owned_handle> made(count);
    for (std::size_t i = 0; i < count; ++i) {
      targets[i] = nullptr;
      if (auto problem = translate(value[i], asked[i]))
        return problem;
      made[i] = std::make_unique<farandole_handle>();
    }
    auto accepted = runtime->member->submit_group(asked);
    if (!accepted)
      return accepted.error();
    for (std::size_t i = 0; i < count; ++i) {
      made[i]->operation = std::move((*accepted)[i]);
      targets[i] = made[i].release();
    }
    return {};
  });
}

farandole_status farandole_add_process_set(farandole_runtime* runtime, const farandole_process_set* wanted,
                                           uint32_t* set, farandole_error* reason) {
  return guarded(reason, [&]() -> error {
    auto ranks = ranks_from(*wanted);
    if (!ranks)
      return ranks.error();
    auto added = runtime->member->add_process_set(std::move(*ranks));
    if (!added)
      return added.error();
    *set = *added;
    return {};
  });
}

farandole_status farandole_remove_process_set(farandole_runtime* runtime, uint32_t set,
                                              farandole_error* reason) {
  return guarded(reason, [&]() -> error { return runtime->member->remove_process_set(set); });
}

farandole_status farandole_list_process_sets(const farandole_runtime* runtime, uint32_t* sets,
                                             size_t capacity, size_t* count, farandole_error* reason) {
  return guarded(reason, [&]() -> error {
    *count = 0;
    for (auto& [set, ranks] : runtime->member->process_sets())
      if ((*count)++ < capacity)
        sets[*count - 1] = set;
    return {};
  });
}

farandole_status farandole_list_ranks(const farandole_runtime* runtime, uint32_t set, int32_t* ranks,
                                      size_t capacity, size_t* count, farandole_error* reason) {
  return guarded(reason, [&]() -> error {
    *count = 0;
    const auto all = runtime->member->process_sets();
    const auto found = all.find(set);
    if (found == all.end())
      return refuse("there is no process set " + std::to_string(set));
    *count = found->second.size();
    std::copy_n(found->second.begin(), std::min(capacity, *count), ranks);
    return {};
  });
}

int farandole_poll(const farandole_handle* handle) {
  return handle->operation.settled() ? 1 : 0;
}

farandole_status farandole_wait(const farandole_handle* handle, int64_t timeout_ms, farandole_error* reason) {
  return guarded(reason, [&]() -> error {
    using clock = std::chrono::steady_clock;
    // A later deadline would overflow the clock's numbers; a century is as good as no timeout.
    constexpr std::int64_t longest_ms = std::int64_t{100} * 365 * 24 * 3600 * 1000;
    if (timeout_ms < -1)
      return refuse("farandole_wait: a timeout of " + std::to_string(timeout_ms) + " ms; -1 means none");
    if (timeout_ms == -1 || timeout_ms > longest_ms)
      return handle->operation.wait();
    return handle->operation.wait(clock::now() + std::chrono::milliseconds{timeout_ms});
  });
}

farandole_status farandole_get_result(const farandole_handle* handle, farandole_result* target,
                                      farandole_error* reason) {
  return guarded(reason, [&]() -> error {
    *target = {nullptr, 0, nullptr, 0, -1};
    if (!handle->operation.settled())
      return {error_kind::precondition,
              "farandole_get_result: the operation has not settled; wait for it first"};
    if (auto problem = handle->operation.problem())
      return problem;
    auto& brought = handle->operation.result();
    *target = {brought.bytes.data(), brought.bytes.size(), brought.first_dims.data(),
               brought.first_dims.size(), brought.last_rank};
    return {};
  });
}

farandole_status farandole_on_settled(farandole_handle* handle, void (*callback)(void* context),
                                      void* context, farandole_error* reason) {
  return guarded(reason, [&]() -> error {
    if (!callback)
      return refuse("farandole_on_settled: callback is NULL");
    if (handle->has_callback.exchange(true))
      return refuse("farandole_on_settled: this handle has a callback already");
    handle->operation.on_settled([callback, context] { callback(context); });
    return {};
  });
}

void farandole_cancel(farandole_handle* handle) {
  handle->operation.cancel();
}
void farandole_release(farandole_handle* handle) {
  delete handle;
}
