#include "actors/launch/record_writer.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include "actors/launch/process_keeper.hpp"
#include "actors/launch/record_folder.hpp"
#include "messages/record/event_copy.hpp"
#include "messages/record/packed_record.hpp"
#include "messages/values/file_bytes.hpp"

namespace farandole {

namespace {

descriptor make_file(const std::string& path) {
  return descriptor{::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
}

/// The path of the complete file of a worker: by its rank, or by its slot if it is no member, or if a worker with the same
/// rank has taken the name.
std::string path_for(const std::string& folder, std::int32_t slot, int file) {
  const bool is_trace = is_packed_record(file);
  const auto rank = is_trace ? rank_in_packed_record(file).value_or(-1) : rank_recorded_in(file);
  const std::string suffix = is_trace ? ".trace" : ".events";
  const auto by_rank = folder + "/rank-" + std::to_string(rank) + suffix;
  return rank >= 0 && ::access(by_rank.c_str(), F_OK) != 0
             ? by_rank
             : folder + "/slot-" + std::to_string(slot) + suffix;
}

/// A peer names the folder, so it must be one that the user has made for private files.
error check_given_folder(const std::string& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0)
    return {error_kind::unknown, path + ": " + std::strerror(errno)};
  if (!S_ISDIR(facts.st_mode) || facts.st_uid != ::geteuid() || (facts.st_mode & 077) != 0)
    return {error_kind::precondition, path + " is no folder that only this user can access (mode 0700)"};
  return {};
}

} // namespace

record_writer::~record_writer() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable())
    thread_.join();
}

void record_writer::begin(record_order order) {
  if (!thread_.joinable())
    thread_ = std::thread([this] { work(); });
  add([this, order = std::move(order)]() mutable {
    order_ = std::move(order);
    outcome_ = {order_.folder};
    if (!order_.folder.empty())
      outcome_.problem = check_given_folder(order_.folder);
    incomplete_.clear();
    if (!order_.folder.empty() || std::ranges::any_of(order_.own, &held_record::has_content))
      write_own();
  });
}

void record_writer::write(written_traces traces) {
  add([this, all = std::make_shared<written_traces>(std::move(traces))] {
    for (const auto& trace : all->traces)
      write_trace(trace);
  });
}

void record_writer::write(const std::string& host, record_part part, std::function<void()> done) {
  add([this, host, part = std::move(part), done = std::move(done)] {
    write_part(host, part);
    done();
  });
}

void record_writer::end_of(const std::string& host) {
  add([this, host] { complete(host); });
}

void record_writer::finish(std::function<void(const record_outcome& outcome)> done) {
  add([this] {
    // Files of hosts that did not send everything are no records.
    for (const auto& [host, entry] : incomplete_)
      ::unlink(entry.path.c_str());
    incomplete_.clear();
    read();
  });
  add([this, done = std::move(done)] { done(outcome_); });
}

void record_writer::add(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_one();
}

void record_writer::work() {
  pthread_setname_np(pthread_self(), "fd-records");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
    if (tasks_.empty())
      return;
    const auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    try {
      task();
    } catch (const std::exception& problem) {
      give_up({error_kind::unknown, std::string("the event records: ") + problem.what()});
    }
    lock.lock();
  }
}

/// Makes the folder if it is to be a new one. Returns false if there is none.
bool record_writer::has_folder() {
  if (outcome_.problem)
    return false;
  if (!outcome_.folder.empty())
    return true;
  auto made = order_.read ? make_temporary_record_folder()
                          : make_record_folder(order_.parent, std::chrono::system_clock::now());
  if (made)
    outcome_.folder = std::move(*made);
  else
    outcome_.problem = made.error();
  if (made && order_.read && keeper_)
    keeper_->remove_at_end(outcome_.folder);
  return !outcome_.folder.empty();
}

void record_writer::write_own() {
  for (const auto& record : std::exchange(order_.own, {})) {
    if (!has_folder())
      return;
    const auto path = path_for(outcome_.folder, record.ending.slot, record.memory->get());
    const auto file = make_file(path);
    if (!file)
      return fail(path);
    if (auto problem = record.copy_to(file.get())) {
      fail(path);
      outcome_.problem = std::move(problem);
      return;
    }
    ++outcome_.files;
  }
}

void record_writer::write_trace(const written_trace& trace) {
  if (!has_folder())
    return;
  const auto path = path_for(outcome_.folder, trace.slot, trace.file.get());
  const auto file = make_file(path);
  std::vector<char> part(most_record_part_bytes);
  std::uint64_t offset = 0;
  auto count = ssize_t{1};
  while (file && count > 0) {
    count = ::pread(trace.file.get(), part.data(), part.size(), static_cast<off_t>(offset));
    if (count > 0 &&
        !write_at(file.get(), offset, std::as_bytes(std::span(part)).first(static_cast<std::size_t>(count))))
      count = -1;
    offset += static_cast<std::uint64_t>(std::max<ssize_t>(count, 0));
  }
  if (!file || count < 0)
    return fail(path);
  ++outcome_.files;
}

void record_writer::write_part(const std::string& host, const record_part& part) {
  if (!has_folder())
    return;
  write_own(); // if it was postponed because no worker of this host has called init()
  if (const auto found = incomplete_.find(host);
      found != incomplete_.end() && found->second.slot != part.slot)
    complete(host);
  auto& entry = incomplete_[host];
  if (!entry.file) {
    entry.slot = part.slot;
    entry.path = outcome_.folder + "/slot-" + std::to_string(part.slot) + ".incomplete";
    entry.file = make_file(entry.path);
  }
  if (!entry.file || !write_at(entry.file.get(), part.offset, std::as_bytes(std::span(part.bytes))))
    fail(entry.path);
}

void record_writer::complete(const std::string& host) {
  const auto found = incomplete_.extract(host);
  if (!found || outcome_.problem)
    return;
  const auto& entry = found.mapped();
  const auto path = path_for(outcome_.folder, entry.slot, entry.file.get());
  if (::rename(entry.path.c_str(), path.c_str()) != 0)
    return fail(path);
  ++outcome_.files;
}

void record_writer::read() {
  if (!order_.read || outcome_.folder.empty())
    return;
  outcome_.text = order_.read(outcome_.folder);
  std::error_code ignored;
  std::filesystem::remove_all(std::exchange(outcome_.folder, {}), ignored);
}

void record_writer::fail(const std::string& path) {
  give_up({error_kind::unknown, path + " cannot be written: " + std::strerror(errno)});
}

void record_writer::give_up(error problem) {
  outcome_.problem = std::move(problem);
  if (order_.folder.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(std::exchange(outcome_.folder, {}), ignored);
  }
}

} // namespace farandole
