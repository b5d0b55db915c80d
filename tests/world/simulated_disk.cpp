#include "tests/world/simulated_disk.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace farandole::testing {

namespace {

constexpr std::uint64_t disk_stream = 407;

} // namespace

class simulated_disk::file final : public disk_file {
public:
  file(simulated_disk& owner, std::shared_ptr<bool> alive, std::shared_ptr<content> stored)
      : disk_(owner), alive_(std::move(alive)), content_(std::move(stored)) {}

  bool read(std::vector<std::byte>& bytes) override {
    bytes.insert(bytes.end(), content_->bytes.begin(), content_->bytes.end());
    return true;
  }

  bool append(std::span<const std::byte> bytes) override {
    if (!*alive_)
      return true;
    const bool ends = disk_.ends_now();
    const bool full = disk_.full_;
    const auto count = ends || full ? disk_.draw_.below(bytes.size() + 1) : bytes.size();
    content_->bytes.insert(content_->bytes.end(), bytes.begin(),
                           bytes.begin() + static_cast<std::ptrdiff_t>(count));
    if (ends)
      disk_.end();
    disk_.behind_ = full;
    disk_.refused_ = disk_.refused_ || full;
    errno = ENOSPC;
    return !full;
  }

  bool cut(std::size_t bytes) override {
    if (!*alive_)
      return true;
    const bool ends = disk_.ends_now();
    if (!ends || disk_.draw_.one_in(2)) {
      content_->bytes.resize(std::min(bytes, content_->bytes.size()));
      content_->synced = std::min(content_->synced, content_->bytes.size());
    }
    if (ends)
      disk_.end();
    return true;
  }

  bool sync() override {
    if (!*alive_)
      return true;
    const bool ends = disk_.ends_now();
    if (!ends || disk_.draw_.one_in(2))
      content_->synced = content_->bytes.size();
    if (ends)
      disk_.end();
    return true;
  }

private:
  simulated_disk& disk_;
  std::shared_ptr<bool> alive_;
  std::shared_ptr<content> content_;
};

class simulated_disk::lock final : public disk_lock {
public:
  lock(simulated_disk& owner, std::string path, std::int32_t process)
      : disk_(owner), path_(std::move(path)), process_(process) {}
  lock(const lock&) = delete;
  lock& operator=(const lock&) = delete;
  ~lock() override {
    if (const auto held = disk_.locks_.find(path_); held != disk_.locks_.end() && held->second == process_)
      disk_.locks_.erase(held);
  }

private:
  simulated_disk& disk_;
  std::string path_;
  std::int32_t process_;
};

class simulated_disk::view final : public disk {
public:
  view(simulated_disk& owner, std::int32_t process, std::shared_ptr<bool> alive)
      : disk_(owner), process_(process), alive_(std::move(alive)) {}

  std::unique_ptr<disk_file> open(const std::string& path) override {
    const auto found = disk_.names_.find(path);
    if (found != disk_.names_.end())
      return std::make_unique<file>(disk_, alive_, found->second);
    errno = ENOENT;
    return nullptr;
  }

  std::unique_ptr<disk_file> create(const std::string& path) override {
    auto fresh = std::make_shared<content>();
    if (*alive_)
      disk_.names_[path] = fresh;
    return std::make_unique<file>(disk_, alive_, std::move(fresh));
  }

  bool rename(const std::string& from, const std::string& to) override {
    if (!*alive_)
      return true;
    const bool ends = disk_.ends_now();
    const auto done = ends ? disk_.draw_.below(3) : 2;
    if (done > 0) {
      disk_.names_[to] = disk_.names_.at(from);
      disk_.names_.erase(from);
    }
    if (done > 1)
      disk_.kept_ = disk_.names_;
    if (ends)
      disk_.end();
    return true;
  }

  std::unique_ptr<disk_lock> lock(const std::string& path, std::string& holder) override {
    if (const auto held = disk_.locks_.find(path); held != disk_.locks_.end()) {
      holder = "process " + std::to_string(held->second);
      errno = EWOULDBLOCK;
      return nullptr;
    }
    disk_.locks_[path] = process_;
    return std::make_unique<simulated_disk::lock>(disk_, path, process_);
  }

private:
  simulated_disk& disk_;
  std::int32_t process_;
  std::shared_ptr<bool> alive_;
};

simulated_disk::simulated_disk(std::uint64_t seed) : draw_(seed, disk_stream) {}

std::shared_ptr<disk> simulated_disk::of(std::int32_t process) {
  auto& alive = alive_[process];
  if (!alive)
    alive = std::make_shared<bool>(true);
  return std::make_shared<view>(*this, process, alive);
}

void simulated_disk::end_process(std::int32_t process) {
  if (const auto found = alive_.find(process); found != alive_.end())
    *found->second = false;
  std::erase_if(locks_, [&](const auto& entry) { return entry.second == process; });
}

// Two names may refer to one file, if a new name had not reached the disk.
void simulated_disk::end_machine() {
  if (draw_.one_in(2))
    names_ = kept_;
  for (auto& [name, content] : names_)
    lose(*content);
  kept_ = names_;
}

// The data after the synced part remains up to a random byte; the rest is missing or zero.
void simulated_disk::lose(content& content) {
  const auto length = content.bytes.size();
  const auto left = content.synced + draw_.below(length - content.synced + 1);
  content.bytes.resize(left);
  if (draw_.one_in(3))
    content.bytes.resize(length);
  content.synced = content.bytes.size();
}

void simulated_disk::at_call(std::uint64_t count, std::function<void()> action) {
  calls_left_ = action ? count : 0;
  at_call_ = std::move(action);
}

bool simulated_disk::ends_now() {
  return calls_left_ > 0 && --calls_left_ == 0;
}

std::vector<std::byte> simulated_disk::synced_bytes(const std::string& path) const {
  const auto found = kept_.find(path);
  if (found == kept_.end())
    return {};
  const auto& bytes = found->second->bytes;
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(found->second->synced)};
}

void simulated_disk::end() {
  std::exchange(at_call_, {})();
}

void simulated_disk::copy(const std::string& from, const std::string& to) {
  if (const auto found = names_.find(from); found != names_.end())
    names_[to] = kept_[to] = std::make_shared<content>(*found->second);
}

} // namespace farandole::testing
