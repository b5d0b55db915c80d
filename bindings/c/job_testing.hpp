// A job of several members through the C interface: a rendezvous and the members in one process, each member on its own
// thread.
#pragma once

#include <catch2/catch.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "actors/event_loop/loop.hpp"
#include "actors/interfaces/slots.hpp"
#include "actors/rendezvous/rendezvous.hpp"
#include <farandole/farandole.h>

namespace farandole::c_testing {

inline const std::string secret = "a secret that only this test knows";
inline constexpr auto stall_setting = "HOROVOD_STALL_CHECK_TIME_SECONDS";

struct release {
  void operator()(farandole_runtime* runtime) const { farandole_free(runtime); }
  void operator()(farandole_handle* handle) const { farandole_release(handle); }
};
using runtime_ptr = std::unique_ptr<farandole_runtime, release>;
using handle_ptr = std::unique_ptr<farandole_handle, release>;

struct answer {
  farandole_status status = FARANDOLE_OK;
  std::string text;
};

/// A job of `size` members that find each other by a rendezvous in this process.
class job {
public:
  explicit job(std::int32_t size, bool elastic = false, const char* stall_warning_seconds = "60")
      : size_(size), elastic_(elastic ? "1" : "0"), stall_warning_seconds_(stall_warning_seconds) {
    const auto lookup = [&](std::string_view name) -> std::optional<std::string> {
      return name == stall_setting ? std::optional<std::string>(stall_warning_seconds_) : std::nullopt;
    };
    const auto values = settings::load({lookup, {}, {}});
    REQUIRE(values);
    rendezvous_options options;
    options.settings = *values;
    options.members.size = size;
    options.members.elastic = elastic;
    options.members.limit = size;
    options.links.credentials = std::make_shared<const tls_credentials>(secret);
    auto service = start_rendezvous(system_.get(), options);
    REQUIRE(service);
    actor_ = service->actor;
    port_ = std::to_string(service->port);
    for (std::int32_t slot = 0; elastic && slot < size; ++slot)
      caf::anon_send(actor_, slot_started{slot});
  }
  ~job() { caf::anon_send(actor_, close_atom::value); }

  /// Calls `action(runtime, rank)` on a thread for each member, and returns when all members have left.
  template <class Action>
  void run(Action action) const {
    std::vector<std::thread> threads;
    std::vector<answer> starts(static_cast<std::size_t>(size_));
    for (std::int32_t rank = 0; rank < size_; ++rank)
      threads.emplace_back([&, rank] {
        auto index = static_cast<std::size_t>(rank);
        if (auto runtime = start(rank, starts[index]))
          action(runtime.get(), index);
      });
    for (auto& thread : threads)
      thread.join();
    for (auto& reply : starts)
      CHECK(reply.text == "");
  }

private:
  runtime_ptr start(std::int32_t rank, answer& reply) const {
    auto rank_text = std::to_string(rank), size_text = std::to_string(size_);
    farandole_setting settings[] = {{"HOROVOD_RANK", rank_text.c_str()},
                                    {"HOROVOD_SIZE", size_text.c_str()},
                                    {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1"},
                                    {"HOROVOD_GLOO_RENDEZVOUS_PORT", port_.c_str()},
                                    {"HOROVOD_ELASTIC", elastic_},
                                    {stall_setting, stall_warning_seconds_},
                                    {"HOROVOD_DYNAMIC_PROCESS_SETS", "1"}};
    farandole_options options = FARANDOLE_OPTIONS_INIT;
    options.settings = settings;
    options.setting_count = std::size(settings);
    options.read_environment = 0;
    options.secret = secret.data();
    options.secret_bytes = secret.size();
    farandole_runtime* runtime = nullptr;
    farandole_error reason;
    reply.status = farandole_start(&options, &runtime, &reason);
    reply.text = reason.text;
    return runtime_ptr(runtime);
  }

  std::int32_t size_;
  const char* elastic_;
  const char* stall_warning_seconds_;
  loop_system system_;
  rendezvous_actor actor_;
  std::string port_;
};

/// One tensor of floats and the operation on it.
class tensor {
public:
  std::vector<float> output;

  tensor(farandole_runtime* runtime, std::string name, std::vector<float> input)
      : output(input.size()), runtime_(runtime), name_(std::move(name)), input_(std::move(input)),
        shape_(static_cast<std::int64_t>(input_.size())) {}

  farandole_submission request(std::int32_t operation = FARANDOLE_ALLREDUCE) {
    farandole_submission asked = FARANDOLE_SUBMISSION_INIT;
    asked.name = name_.c_str();
    asked.operation = operation;
    asked.shape = &shape_;
    asked.dimensions = 1;
    asked.input = input_.data();
    asked.output = output.data();
    return asked;
  }

  answer submit(std::int32_t operation = FARANDOLE_ALLREDUCE) {
    auto asked = request(operation);
    farandole_error reason;
    farandole_handle* handle = nullptr;
    auto status = farandole_submit(runtime_, &asked, &handle, &reason);
    adopt(handle);
    return {status, reason.text};
  }

  void adopt(farandole_handle* handle) { handle_.reset(handle); }
  farandole_handle* handle() const { return handle_.get(); }

  answer wait(std::int64_t timeout_ms = -1) const {
    farandole_error reason;
    auto status = farandole_wait(handle_.get(), timeout_ms, &reason);
    return {status, reason.text};
  }

  answer reduce() {
    auto asked = submit();
    return asked.status == FARANDOLE_OK ? wait() : asked;
  }

private:
  farandole_runtime* runtime_;
  std::string name_;
  std::vector<float> input_;
  std::int64_t shape_;
  handle_ptr handle_;
};

} // namespace farandole::c_testing
