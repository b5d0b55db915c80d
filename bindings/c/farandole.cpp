// Implements the C interface over the C++ one: translates the arguments (translation.hpp), forwards the call, and turns
// errors and exceptions into a status and a text.
#include <farandole/farandole.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>

#include "bindings/c/translation.hpp"
#include "bindings/c/wrapped.hpp"
#include "messages/values/printable.hpp"

using namespace farandole;

namespace {

// Terminates the text by 0, and truncates it if it does not fit.
void copy_text(const std::string& text, char* target, std::size_t capacity) {
  auto length = std::min<std::size_t>(text.size(), capacity - 1);
  // Never cut inside a UTF-8 character.
  while (length < text.size() && length > 0 && (text[length] & 0xC0) == 0x80)
    --length;
  std::memcpy(target, text.data(), length);
  target[length] = '\0';
}

using clock_type = std::chrono::steady_clock;

// The end of a wait. `call` names the function of this interface.
expected<clock_type::time_point> deadline_after(std::int64_t timeout_ms, const std::string& call) {
  // A later deadline would overflow the clock's numbers; a century is as good as no timeout.
  constexpr std::int64_t longest_ms = std::int64_t{100} * 365 * 24 * 3600 * 1000;
  if (timeout_ms < -1)
    return refuse(call + ": a timeout of " + std::to_string(timeout_ms) + " ms; -1 means none");
  if (timeout_ms == -1 || timeout_ms > longest_ms)
    return clock_type::time_point::max();
  return clock_type::now() + std::chrono::milliseconds{timeout_ms};
}

} // namespace

farandole_status farandole::report(const error& problem, farandole_error* reason) {
  auto status = static_cast<farandole_status>(problem.kind);
  if (!reason)
    return status;
  copy_text(printable(problem.text), reason->text, FARANDOLE_TEXT_BYTES);
  reason->status = status;
  return status;
}

namespace {

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

// The structs of a caller that was compiled with another version of the header have another size.
const farandole_submission& item_of(const farandole_submission* first, std::size_t index) {
  return *reinterpret_cast<const farandole_submission*>(reinterpret_cast<const std::byte*>(first) +
                                                        index * first->bytes);
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

farandole_status farandole_start_timeline(farandole_runtime* runtime, const char* path, int mark_cycles,
                                          farandole_error* reason) {
  return guarded(reason, [&]() -> error {
    if (!path)
      return refuse("farandole_start_timeline: path is NULL");
    return runtime->member->start_timeline(path, mark_cycles != 0);
  });
}
farandole_status farandole_stop_timeline(farandole_runtime* runtime, farandole_error* reason) {
  return guarded(reason, [&]() -> error { return runtime->member->stop_timeline(); });
}

farandole_status farandole_mark_step(farandole_runtime* runtime, farandole_error* reason) {
  return guarded(reason, [&]() -> error { return runtime->member->mark_step(); });
}

farandole_status farandole_next_stall(farandole_runtime* runtime, int64_t timeout_ms, char* text,
                                      size_t capacity, int* over, farandole_error* reason) {
  return guarded(reason, [&]() -> error {
    if (!text || capacity == 0 || !over)
      return refuse("farandole_next_stall: text or over is NULL, or capacity is 0");
    const auto deadline = deadline_after(timeout_ms, "farandole_next_stall");
    if (!deadline)
      return deadline.error();
    const auto report = runtime->member->next_stall(*deadline);
    if (!report)
      return report.error();
    copy_text(printable(report->first), text, capacity);
    *over = report->second ? 1 : 0;
    return {};
  });
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
      if (auto problem = translate(item_of(value, i), asked[i]))
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
    const auto deadline = deadline_after(timeout_ms, "farandole_wait");
    return deadline ? handle->operation.wait(*deadline) : deadline.error();
  });
}

int farandole_released(const farandole_handle* handle) {
  return handle->operation.released() ? 1 : 0;
}

farandole_status farandole_wait_on_stream(const farandole_handle* handle, void* stream, int64_t timeout_ms,
                                          farandole_error* reason) {
  return guarded(reason, [&]() -> error {
    const auto deadline = deadline_after(timeout_ms, "farandole_wait_on_stream");
    return deadline ? handle->operation.wait_on_stream(stream, *deadline) : deadline.error();
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
