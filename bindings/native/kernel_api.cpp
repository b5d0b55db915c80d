#include "bindings/native/kernel_api.hpp"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "bindings/c/translation.hpp"
#include "bindings/c/wrapped.hpp"
#include "bindings/native/raise.hpp"

namespace farandole::native {
namespace {

// Leaked on purpose: kernels may call while the process ends.
struct lent_runtime {
  std::shared_mutex guard;
  const process_runtime* owner = nullptr;
  farandole_runtime runtime;
  pid_t process = 0;
};

lent_runtime& lent() {
  static auto* only = new lent_runtime;
  return *only;
}

/// Runs `call` with the lent runtime, if there is one.
template <class Call>
farandole_status with_runtime(farandole_error* reason, Call call) {
  auto& api = lent();
  // A forked child has a copy of the parent's mutex, perhaps locked by a thread that does not exist in the child.
  if (api.process != 0 && api.process != getpid())
    return report(forked_error(), reason);
  std::shared_lock lock(api.guard);
  if (!api.owner)
    return report({error_kind::precondition, "Farandole has not been initialized; call init() first"},
                  reason);
  return call(api.runtime);
}

farandole_status submit_here(const farandole_submission* submission, size_t count, farandole_handle** handles,
                             farandole_error* reason) {
  return with_runtime(reason, [&](farandole_runtime& runtime) {
    if (count == 1)
      return farandole_submit(&runtime, submission, handles, reason);
    return farandole_submit_group(&runtime, submission, count, handles, reason);
  });
}

farandole_status submit_absent_here(const farandole_submission* given, farandole_handle** handle,
                                    farandole_error* reason) {
  return with_runtime(reason, [&](farandole_runtime& runtime) {
    *handle = nullptr;
    submission asked;
    if (const auto problem = translate(*given, asked))
      return report(problem, reason);
    asked.absent = true;
    auto accepted = runtime.member->submit(asked);
    if (!accepted)
      return report(accepted.error(), reason);
    auto made = std::make_unique<farandole_handle>();
    made->operation = std::move(*accepted);
    *handle = made.release();
    return FARANDOLE_OK;
  });
}

farandole_absent_result absent_result(const farandole_handle* handle) {
  switch (handle->operation.result().kind) {
  case result_kind::none:
    return FARANDOLE_NOTHING;
  case result_kind::rows:
    return FARANDOLE_ROWS;
  default:
    return FARANDOLE_REDUCED;
  }
}

std::optional<std::int32_t> place_in_job(const runtime& member, farandole_question question) {
  switch (question) {
  case FARANDOLE_ASK_RANK:
    return member.rank();
  case FARANDOLE_ASK_SIZE:
    return member.size();
  case FARANDOLE_ASK_LOCAL_RANK:
    return member.local_rank();
  case FARANDOLE_ASK_LOCAL_SIZE:
    return member.local_size();
  case FARANDOLE_ASK_INCLUDED:
    return 1;
  }
  return std::nullopt;
}

farandole_status place_in_set(const runtime& member, farandole_question question, std::uint32_t set,
                              std::int32_t* answer, farandole_error* reason) {
  const auto sets = member.process_sets();
  const auto found = sets.find(set);
  if (found == sets.end())
    return report({error_kind::invalid_argument, "there is no process set " + std::to_string(set)}, reason);
  const auto& ranks = found->second;
  const auto own = std::find(ranks.begin(), ranks.end(), member.rank());
  if (question == FARANDOLE_ASK_SIZE)
    *answer = static_cast<std::int32_t>(ranks.size());
  else if (question == FARANDOLE_ASK_INCLUDED)
    *answer = own != ranks.end() ? 1 : 0;
  else if (own != ranks.end())
    *answer = static_cast<std::int32_t>(own - ranks.begin());
  else
    return report({error_kind::invalid_argument,
                   "rank " + std::to_string(member.rank()) + " is not in process set " + std::to_string(set)},
                  reason);
  return FARANDOLE_OK;
}

farandole_status ask_here(farandole_question question, uint32_t set, int32_t* answer,
                          farandole_error* reason) {
  return with_runtime(reason, [&](farandole_runtime& runtime) {
    const bool of_a_set = question == FARANDOLE_ASK_RANK || question == FARANDOLE_ASK_SIZE ||
                          question == FARANDOLE_ASK_INCLUDED;
    if (set != 0 && of_a_set)
      return place_in_set(*runtime.member, question, set, answer, reason);
    const auto rank = place_in_job(*runtime.member, question);
    if (!rank)
      return report({error_kind::invalid_argument, "there is no question " + std::to_string(question)},
                    reason);
    *answer = *rank;
    return FARANDOLE_OK;
  });
}

const char* kind_of(farandole_status status) {
  const auto number = static_cast<std::size_t>(status);
  return to_string(number < error_kind_count ? static_cast<error_kind>(number) : error_kind::unknown).data();
}

} // namespace

const farandole_kernel_api& kernel_api() {
  static const farandole_kernel_api api = {FARANDOLE_KERNEL_API_VERSION,
                                           &submit_here,
                                           &farandole_on_settled,
                                           &farandole_wait,
                                           &farandole_get_result,
                                           &farandole_release,
                                           &ask_here,
                                           &farandole_cancel,
                                           &kind_of,
                                           &submit_absent_here,
                                           &absent_result};
  return api;
}

void open_to_kernels(const std::shared_ptr<process_runtime>& running) {
  auto& api = lent();
  std::unique_lock lock(api.guard);
  api.owner = running.get();
  // Not an owner: close_to_kernels() is called before the runtime is destroyed.
  api.runtime.member = {std::shared_ptr<void>(), &running->core()};
  api.process = getpid();
}

void close_to_kernels(const process_runtime& ending) {
  auto& api = lent();
  std::unique_lock lock(api.guard);
  if (api.owner != &ending)
    return;
  api.owner = nullptr;
  api.runtime.member.reset();
}

} // namespace farandole::native
