// The middle of a communicator: a thread in the process that made the unique id, to which all ranks connect. It checks
// that the ranks agree, computes the results, and tells them of ranks that are gone.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cuda/fake/fake_nccl_frames_testing.hpp"
#include "cuda/fake/fake_nccl_matches_testing.hpp"

namespace fake_nccl {

class hub {
public:
  /// Takes a listening socket, and begins its thread. The thread ends when all ranks have come and are gone.
  explicit hub(int listening);
  hub(const hub&) = delete;
  hub& operator=(const hub&) = delete;
  /// Ends the thread, at any time.
  ~hub();

  bool has_ended() const { return has_ended_; }

private:
  struct member {
    frame_socket socket;
    bool has_introduced = false, has_left = false, is_closed = false;
    introduction facts;

    explicit member(int descriptor) : socket(descriptor) {}
  };

  void serve();
  bool wait();
  void accept();
  void handle(member& from, frame received);
  void introduce(member& from, const frame& received);
  void complete();
  std::string disagreement(int& result) const;
  void part_from(member& lost);
  void tell_all(const frame& news);
  std::ptrdiff_t introduced() const;
  bool is_finished() const;

  int listening_; ///< -1 after all ranks have come
  std::mutex mutex_;
  std::unique_ptr<wake_descriptor> stop_;        ///< belongs to the mutex; null after the thread
  std::vector<std::unique_ptr<member>> members_; ///< in the order in which they came
  std::vector<member*> by_rank_;                 ///< once all have come and agree
  std::unique_ptr<matches> matches_;             ///< once all have come and agree
  bool has_refused_ = false;
  std::atomic<bool> is_stopping_ = false, has_ended_ = false;
  std::thread thread_;
};

/// Makes a hub that lives until its ranks are gone or the process ends. Returns the name at which it listens; empty
/// with errno set if it fails.
std::string start_hub();
/// Ends all hubs of this process.
void end_hubs();

} // namespace fake_nccl
