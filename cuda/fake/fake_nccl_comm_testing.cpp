#include "cuda/fake/fake_nccl_comm_testing.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cuda/fake/fake_nccl_calls_testing.hpp"

using namespace fake_nccl;

namespace fake_nccl {

ncclResult_t fail(ncclResult_t result, const std::string& text) {
  set_last_error(text);
  return result;
}

} // namespace fake_nccl

ncclComm::ncclComm(comm_facts facts, const fake_nccl::driver& driver)
    : facts_(std::move(facts)), driver_(driver), wake_(std::make_unique<wake_descriptor>()) {
  driver_.retain_context(&context_, device());
}

void ncclComm::start() {
  thread_ = std::thread([this] { serve(); });
}

ncclResult_t ncclComm::wait_until_ready() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return init_ != ncclInProgress || is_aborted_; });
  if (init_ == ncclInProgress)
    return fail(ncclInternalError, "the communicator was aborted before it was ready");
  return init_ == ncclSuccess ? ncclSuccess : fail(init_, init_text_);
}

void ncclComm::end() {
  {
    const std::lock_guard lock(mutex_);
    if (is_ending_)
      return; // an abort during the initialisation has done it
    is_ending_ = true;
    wake_->wake();
    changed_.notify_all();
  }
  if (thread_.joinable())
    thread_.join();
  driver_.release_context(device());
  const std::lock_guard lock(mutex_);
  wake_.reset();
}

ncclResult_t ncclComm::state_without_lock() const {
  if (init_ != ncclSuccess)
    return init_;
  if (error_ != ncclSuccess)
    return error_;
  return !postponed_.empty() || ((is_finalized_ || is_revoked_) && !is_quiet()) ? ncclInProgress
                                                                                : ncclSuccess;
}

ncclResult_t ncclComm::state() {
  const std::lock_guard lock(mutex_);
  return state_without_lock();
}

ncclResult_t ncclComm::check_usable(const char* function) {
  const auto result = state();
  if (result == ncclInProgress)
    return fail(not_ready, std::string(function) + ": an earlier call of the communicator is in progress");
  return result == ncclSuccess ? result
                               : fail(result, std::string(function) + ": the communicator has failed");
}

ncclResult_t ncclComm::check_can_launch(const char* function) {
  {
    const std::lock_guard lock(mutex_);
    if (is_revoked_)
      return fail(ncclInvalidUsage, std::string(function) + ": the communicator was revoked");
    if (is_finalized_)
      return fail(ncclInvalidUsage, std::string(function) + ": the communicator was finalized");
  }
  return check_usable(function);
}

ncclResult_t ncclComm::check_can_destroy(const char* function) {
  const std::lock_guard lock(mutex_);
  if (init_ == ncclInProgress || !postponed_.empty())
    return fail(not_ready, std::string(function) + ": an earlier call of the communicator is in progress");
  const auto failed = init_ != ncclSuccess ? init_ : error_;
  return failed == ncclSuccess
             ? failed
             : fail(failed, std::string(function) + ": the communicator has failed; it has to be aborted");
}

void ncclComm::set_error(ncclResult_t error, const std::string& text) {
  set_last_error(text);
  const std::lock_guard lock(mutex_);
  if (error_ == ncclSuccess)
    error_ = error;
}

void ncclComm::finalize() {
  const std::lock_guard lock(mutex_);
  is_finalized_ = true;
}

ncclResult_t ncclComm::revoke() {
  const std::lock_guard lock(mutex_);
  if (is_revoked_ || is_finalized_)
    return fail(ncclInvalidArgument, "ncclCommRevoke: the communicator was revoked or finalized before");
  is_revoked_ = true;
  postponed_.clear();
  changed_.notify_all();
  return ncclSuccess;
}

void ncclComm::abort() {
  const std::lock_guard lock(mutex_);
  is_aborted_ = true;
  postponed_.clear();
  changed_.notify_all();
}

void ncclComm::wait_for_kernels() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_quiet(); });
}

void ncclComm::postpone(std::function<void()> launch) {
  const char* polls = std::getenv("FARANDOLE_FAKE_NCCL_POLLS");
  const std::lock_guard lock(mutex_);
  if (postponed_.empty())
    polls_left_ = polls != nullptr ? std::atoi(polls) : 1;
  postponed_.push_back(std::move(launch));
}

ncclResult_t ncclComm::poll() {
  std::vector<std::function<void()>> due;
  {
    const std::lock_guard lock(mutex_);
    if (postponed_.empty() || polls_left_-- > 0)
      return state_without_lock();
    due.swap(postponed_);
  }
  for (const auto& launch : due)
    launch(); // may set the error
  return state();
}

std::uint64_t ncclComm::launch_kernel() {
  const std::lock_guard lock(mutex_);
  return kernels_launched_++;
}

void ncclComm::wait_for_turn(std::uint64_t kernel) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return first_kernel_ == kernel; });
}

void ncclComm::kernel_ended(std::uint64_t kernel) {
  const std::lock_guard lock(mutex_);
  ended_behind_.insert(kernel);
  while (ended_behind_.erase(first_kernel_) == 1)
    ++first_kernel_;
  changed_.notify_all();
}

std::vector<frame_data> ncclComm::exchange(std::vector<frame> operations) {
  std::unique_lock lock(mutex_);
  if (is_aborted_ || is_revoked_)
    return {};
  const auto first = next_id_;
  next_id_ += operations.size();
  for (std::size_t i = 0; i < operations.size(); ++i) {
    operations[i].header.id = first + i;
    results_[first + i] = nullptr;
    unsent_.push_back(std::move(operations[i]));
  }
  wake_->wake();
  const auto begin = results_.find(first);
  const auto has_all = [&] {
    return std::all_of(begin, results_.end(), [](const auto& result) { return result.second != nullptr; });
  };
  changed_.wait(lock, [&] { return is_aborted_ || is_revoked_ || has_all(); });
  std::vector<frame_data> all;
  if (has_all())
    for (auto result = begin; result != results_.end(); ++result)
      all.push_back(result->second);
  results_.clear();
  return all;
}

void ncclComm::serve() {
  if (facts_.hangs) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_ending_; });
    return;
  }
  const int connected = connect_to(facts_.hub);
  if (connected < 0) {
    settle_init(ncclSystemError, std::string("cannot connect to the process that made the unique id: ") +
                                     std::strerror(errno));
    return;
  }
  frame_socket socket(connected);
  const auto* own = reinterpret_cast<const unsigned char*>(&facts_.own);
  socket.push(frame({}, std::vector<unsigned char>(own, own + sizeof facts_.own)));
  talk(socket);
}

void ncclComm::talk(frame_socket& socket) {
  while (take_unsent(socket)) {
    const auto events = static_cast<short>(POLLIN | (socket.has_unsent() ? POLLOUT : 0));
    pollfd sockets[] = {{wake_->descriptor(), POLLIN, 0}, {socket.descriptor(), events, 0}};
    if (::poll(sockets, 2, -1) < 0)
      continue; // interrupted
    wake_->clear();
    if (!socket.receive([this](const frame& received) { handle(received); }) || !socket.send()) {
      lose_hub();
      return;
    }
  }
}

/// Sends what kernels have queued. False after the last frame, at the end.
bool ncclComm::take_unsent(frame_socket& socket) {
  const std::lock_guard lock(mutex_);
  for (auto& next : unsent_)
    socket.push(std::move(next));
  unsent_.clear();
  if (is_ending_ && !is_aborted_) {
    frame_header last;
    last.kind = frame_kind::leave;
    socket.push(frame(last));
  }
  socket.send(); // if the hub is gone, that is seen when it is read
  return !is_ending_;
}

void ncclComm::lose_hub() {
  const std::string text = "the process that made the unique id is gone";
  settle_init(ncclRemoteError, text);
  set_error(ncclRemoteError, text);
}

void ncclComm::handle(const frame& received) {
  const auto& header = received.header;
  switch (header.kind) {
  case frame_kind::welcome:
    settle_init(ncclSuccess, {});
    break;
  case frame_kind::refusal:
    settle_init(static_cast<ncclResult_t>(header.op), {received.data->begin(), received.data->end()});
    break;
  case frame_kind::lost:
    set_error(ncclRemoteError, "rank " + std::to_string(header.peer) + " is gone");
    break;
  default: {
    const std::lock_guard lock(mutex_);
    if (const auto found = results_.find(header.id); found != results_.end())
      found->second = received.data;
    changed_.notify_all();
  }
  }
}

void ncclComm::settle_init(ncclResult_t result, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (init_ != ncclInProgress)
    return;
  init_ = result;
  init_text_ = text;
  if (result != ncclSuccess)
    set_last_error(text);
  changed_.notify_all();
}
