// Support for joining a job that another launcher started: which job it is, and the meeting of its ranks in torch's store,
// which Python has.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "bindings/native/nanobind.hpp"

#include "actors/pmi/job_meeting.hpp"
#include "actors/submission/process_guard.hpp"

namespace farandole::native {

bool launched_by_mpi();

std::string place_of_process();

double discovery_timeout_s();

std::optional<std::tuple<std::int32_t, std::int32_t, double, std::string>> torch_job();

/// Where this process meets the others of a job.
class store_meeting {
public:
  /// Blocks until all ranks have come to the meeting of this number. `store` is an object with put(name, value) and
  /// get(rank, name), which waits for the value.
  static store_meeting hold(nanobind::object store, std::int32_t rank, std::int32_t size,
                            std::int32_t number);
  store_meeting(store_meeting&&) noexcept = default;
  ~store_meeting();

  /// Ends the rendezvous, which runs on rank 0.
  void close();
  const std::string& ip() const { return place_.ip; }
  std::uint16_t port() const { return place_.port; }
  /// The secret that was made for this job; empty if its processes had been given one.
  std::string new_secret() const { return place_.has_new_secret ? place_.secret : std::string(); }

private:
  explicit store_meeting(meeting_place place) : place_(std::move(place)) {}

  std::unique_ptr<process_guard> mark_ = std::make_unique<process_guard>();
  meeting_place place_;
};

} // namespace farandole::native
