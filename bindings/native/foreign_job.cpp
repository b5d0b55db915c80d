#include "bindings/native/foreign_job.hpp"

#include "bindings/native/nanobind.hpp"
#include <nanobind/stl/string.h>

#include <chrono>
#include <utility>

#include "actors/rendezvous/job_secret.hpp"
#include "bindings/native/raise.hpp"
#include "elastic/foreign_launch.hpp"

namespace nb = nanobind;

namespace farandole::native {
namespace {

settings settings_of_process() {
  auto values = settings::load({process_environment(), {}, {}});
  if (!values)
    raise(values.error());
  return *values;
}

/// An object of Python in which the ranks of a job meet. Its exceptions pass through the meeting.
class python_store final : public key_value_space {
public:
  python_store(nb::object store, std::int32_t rank, std::int32_t size)
      : store_(std::move(store)), rank_(rank), size_(size) {}

  std::int32_t rank() const override { return rank_; }
  std::int32_t size() const override { return size_; }
  error put(const std::string& key, const std::string& value, time_point) override {
    const nb::gil_scoped_acquire gil;
    store_.attr("put")(key, value);
    return {};
  }
  error fence(time_point) override { return {}; } // get() waits for the value
  expected<std::string> get(std::int32_t rank, const std::string& key, time_point) override {
    const nb::gil_scoped_acquire gil;
    return nb::cast<std::string>(store_.attr("get")(rank, key));
  }

private:
  nb::object store_;
  std::int32_t rank_;
  std::int32_t size_;
};

} // namespace

bool launched_by_mpi() {
  const auto launch = find_foreign_launch(process_environment());
  return launch && launch->starts_mpi && settings_of_process().text(setting::rendezvous_address).empty();
}

std::string place_of_process() {
  return place_in_environment(process_environment());
}

double discovery_timeout_s() {
  return std::chrono::duration<double>(settings_of_process().duration(setting::discovery_timeout)).count();
}

std::optional<std::tuple<std::int32_t, std::int32_t, double, std::string>> torch_job() {
  const auto values = settings_of_process();
  const auto launch = torch_store_launch(process_environment(), values);
  if (!launch)
    return std::nullopt;
  const std::chrono::duration<double> patience = values.duration(setting::start_timeout);
  return std::tuple{launch->rank, launch->size, patience.count(), values.cited(setting::start_timeout)};
}

store_meeting store_meeting::hold(nb::object store, std::int32_t rank, std::int32_t size,
                                  std::int32_t number) {
  const auto values = settings_of_process();
  const auto deadline = std::chrono::steady_clock::now() + values.duration(setting::start_timeout);
  const auto secret = job_secret(values);
  if (!secret)
    raise(secret.error());
  python_store space(std::move(store), rank, size);
  auto place = [&] {
    const nb::gil_scoped_release no_gil;
    return hold_meeting(space, number, values, *secret, deadline);
  }();
  if (!place)
    raise(place.error());
  if (place->refusal)
    raise(place->refusal);
  return store_meeting(std::move(*place));
}

store_meeting::~store_meeting() {
  close();
}

void store_meeting::close() {
  auto& rendezvous = place_.rendezvous;
  if (!rendezvous)
    return;
  // A forked child has no event loop to end: it belongs to the parent.
  if (!mark_->is_local())
    return static_cast<void>(rendezvous.release());
  const nb::gil_scoped_release no_gil;
  rendezvous.reset();
}

} // namespace farandole::native
