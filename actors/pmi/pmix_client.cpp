#include "actors/pmi/pmix_client.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <future>
#include <limits>
#include <thread>
#include <utility>

namespace farandole {
namespace {

constexpr const char* job_size_key = "pmix.job.size";
constexpr const char* timeout_key = "pmix.timeout";
constexpr const char* collect_key = "pmix.collect";

template <std::size_t Size>
void write(char (&field)[Size], const std::string& text) {
  std::memcpy(field, text.data(), std::min(text.size(), Size - 1));
}

/// Makes the fence bring all values to all hosts.
pmix_info collect_info() {
  pmix_info info;
  write(info.key, collect_key);
  info.value.type = pmix_type_bool;
  info.value.data.flag = true;
  return info;
}

/// Limits the search for a key that was not put, where the launcher supports it.
pmix_info timeout_info(process_manager::time_point deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::seconds>(deadline - std::chrono::steady_clock::now()).count();
  pmix_info info;
  write(info.key, timeout_key);
  info.value.type = pmix_type_int;
  info.value.data.integer = static_cast<int>(std::clamp<std::int64_t>(left, 1, 1'000'000));
  return info;
}

pmix_proc whole_job(pmix_proc self) {
  self.rank = pmix_rank_wildcard;
  return self;
}

/// Signals are left to the threads of the program.
void run_detached(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([body = std::move(body)] {
    pthread_setname_np(pthread_self(), "fd-pmix");
    body();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  thread.detach();
}

} // namespace

expected<std::unique_ptr<process_manager>> pmix_client::connect(time_point deadline) {
  const auto& pmix = load_pmix();
  if (!pmix)
    return pmix.error();
  std::unique_ptr<pmix_client> client(new pmix_client(*pmix));
  if (auto problem = client->begin(deadline))
    return problem;
  return std::unique_ptr<process_manager>(std::move(client));
}

error pmix_client::begin(time_point deadline) {
  const auto& pmix = pmix_;
  const auto hello = within(deadline, "PMIx_Init", [&pmix] {
    answer found;
    found.status = pmix.initialize(&found.self, nullptr, 0);
    return found;
  });
  if (!hello)
    return hello.error();
  self_ = hello->self;
  const auto size = within(deadline, "PMIx_Get", [&pmix, job = whole_job(self_)] {
    answer found;
    pmix_value* value = nullptr;
    found.status = pmix.get(&job, job_size_key, nullptr, 0, &value);
    if (found.status == pmix_success && value != nullptr && value->type == pmix_type_uint32)
      found.number = value->data.uint32;
    std::free(value);
    return found;
  });
  if (!size)
    return size.error();
  constexpr auto most = static_cast<std::uint32_t>(std::numeric_limits<std::int32_t>::max());
  if (size->number == 0 || size->number > most || self_.rank >= size->number)
    return {error_kind::unknown, "PMIx gave this process rank " + std::to_string(self_.rank) + " of " +
                                     std::to_string(size->number) + ", which is no valid rank"};
  size_ = static_cast<std::int32_t>(size->number);
  return {};
}

error pmix_client::put(const std::string& key, const std::string& value, time_point deadline) {
  const auto& pmix = pmix_;
  const auto done = within(deadline, "PMIx_Put", [&pmix, key = "farandole-" + key, text = value]() mutable {
    answer found;
    pmix_value value;
    value.type = pmix_type_string;
    value.data.string = text.data();
    found.status = pmix.put(pmix_global, key.c_str(), &value);
    if (found.status == pmix_success)
      found.status = pmix.commit();
    return found;
  });
  return done ? error{} : done.error();
}

error pmix_client::fence(time_point deadline) {
  const auto& pmix = pmix_;
  const auto done = within(deadline, "PMIx_Fence", [&pmix, job = whole_job(self_), info = collect_info()] {
    answer found;
    found.status = pmix.fence(&job, 1, &info, 1);
    return found;
  });
  return done ? error{} : done.error();
}

expected<std::string> pmix_client::get(std::int32_t rank, const std::string& key, time_point deadline) {
  const auto& pmix = pmix_;
  auto source = self_;
  source.rank = static_cast<std::uint32_t>(rank);
  const auto done =
      within(deadline, "PMIx_Get", [&pmix, source, key = "farandole-" + key, info = timeout_info(deadline)] {
        answer found;
        pmix_value* value = nullptr;
        found.status = pmix.get(&source, key.c_str(), &info, 1, &value);
        if (found.status != pmix_success || value == nullptr)
          return found;
        if (value->type == pmix_type_string && value->data.string != nullptr) {
          found.text = value->data.string;
          std::free(value->data.string);
        }
        std::free(value);
        return found;
      });
  if (!done)
    return done.error();
  return done->text;
}

void pmix_client::finish(time_point deadline) {
  if (failure_)
    return;
  const auto& pmix = pmix_;
  static_cast<void>(within(deadline, "PMIx_Finalize", [&pmix] {
    answer found;
    found.status = pmix.finalize(nullptr, 0);
    return found;
  }));
}

expected<pmix_client::answer> pmix_client::within(time_point deadline, const char* text,
                                                  std::function<answer()> call) {
  if (failure_)
    return failure_;
  const auto task = std::make_shared<std::packaged_task<answer()>>(std::move(call));
  auto result = task->get_future();
  run_detached([task] { (*task)(); });
  if (result.wait_until(deadline) != std::future_status::ready) {
    failure_ = {error_kind::timed_out, std::string(text) + " did not return in time"};
    return failure_;
  }
  auto done = result.get();
  if (done.status == pmix_success)
    return done;
  const char* name = pmix_.error_string(done.status);
  failure_ = {error_kind::unknown, std::string(text) + " failed: " + (name != nullptr ? name : "") + " (" +
                                       std::to_string(done.status) + ")"};
  return failure_;
}

} // namespace farandole
