#include "actors/launch/output_writer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace farandole {

output_writer::output_writer() {
  // The thread inherits this signal mask, so that it receives no signal that the process handles elsewhere.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

output_writer::~output_writer() {
  {
    std::lock_guard lock{mutex_};
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

expected<int> output_writer::open(const std::string& path) {
  std::error_code problem;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), problem);
  descriptor file{::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
  if (!file)
    return error{error_kind::invalid_argument, "cannot write to " + path + ": " + std::strerror(errno)};
  const int number = file.get();
  std::lock_guard lock{mutex_};
  files_[number] = std::move(file);
  return number;
}

void output_writer::close(int file) {
  {
    std::lock_guard lock{mutex_};
    queue_.push_back({file, {}});
  }
  changed_.notify_one();
}

void output_writer::write(int target, std::string text) {
  if (text.empty())
    return;
  {
    std::lock_guard lock{mutex_};
    waiting_bytes_ += text.size();
    if (!queue_.empty() && queue_.back().target == target && queue_.back().text.size() < (1 << 16))
      queue_.back().text += text;
    else
      queue_.push_back({target, std::move(text)});
  }
  changed_.notify_one();
}

bool output_writer::full() const {
  std::lock_guard lock{mutex_};
  return waiting_bytes_ > limit_bytes;
}

void output_writer::when_there_is_room(std::function<void()> action) {
  {
    std::lock_guard lock{mutex_};
    if (waiting_bytes_ > limit_bytes / 2) {
      room_.push_back(std::move(action));
      return;
    }
  }
  action();
}

void output_writer::run() {
  pthread_setname_np(pthread_self(), "fd-output");
  std::unique_lock lock{mutex_};
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty())
      return;
    chunk next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    put(next);
    lock.lock();
    waiting_bytes_ -= next.text.size();
    if (waiting_bytes_ > limit_bytes / 2 || room_.empty())
      continue;
    auto waiting = std::move(room_);
    room_.clear();
    lock.unlock();
    for (auto& action : waiting)
      action();
    lock.lock();
  }
}

void output_writer::put(const chunk& chunk) {
  if (chunk.text.empty()) {
    broken_.erase(chunk.target); // its number may become that of another file
    std::unique_lock lock{mutex_};
    const auto file = files_.extract(chunk.target);
    lock.unlock(); // a server of files that does not answer may block the closing
  }
  if (broken_.contains(chunk.target))
    return;
  for (std::size_t at = 0; at < chunk.text.size();) {
    const auto count = ::write(chunk.target, chunk.text.data() + at, chunk.text.size() - at);
    if (count >= 0) {
      at += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      // Another process that shares the terminal has made it non-blocking.
      pollfd ready{chunk.target, POLLOUT, 0};
      ::poll(&ready, 1, -1); // no deadline: a reader may be slow, and the loop does not wait for this thread
    } else if (errno != EINTR) {
      const int code = errno;
      const std::string problem = std::strerror(code);
      broken_.insert(chunk.target);
      if (code == EPIPE && unread_)
        unread_();
      else if (chunk.target != STDERR_FILENO)
        put({STDERR_FILENO, "farandole: output is lost from here on: " + problem + "\n"});
      return;
    }
  }
}

} // namespace farandole
