// One member's end of a communicator. oneCCL can neither be interrupted nor given a deadline: members meet in
// one call that blocks, and an operation that has begun can only be asked whether it is done. So members meet
// on a thread that may be left behind, and operations move staging memory: when a wait is given up, memory
// and operation are left to oneCCL for ever, and the caller's buffers were never known to it. Communicators
// are always left: their end, too, waits for the others.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <oneapi/ccl.hpp>

#include <farandole/path_plugin.h>

namespace farandole {

/// How a call ended, and why.
struct ccl_outcome {
  farandole_path_status status = FARANDOLE_PATH_OK;
  std::string reason;
};

/// Used by one thread.
class ccl_end {
public:
  /// `unusable()` says whether that went well.
  explicit ccl_end(const farandole_path_set& set);
  ~ccl_end();
  ccl_end(const ccl_end&) = delete;
  ccl_end& operator=(const ccl_end&) = delete;

  const farandole_path_set& set() const { return set_; }
  const std::string& unusable() const { return unusable_; }

  /// Where the members meet: rank 0 says so, the others say nothing.
  std::string introduction() const;
  /// Meets the others at what rank 0 said.
  ccl_outcome meet(const std::string& place, const farandole_path_limits& deadline);

  /// Memory for the next operation, aligned for every type and never null. It stays as it is until the next
  /// call.
  std::byte* staging(std::size_t bytes);

  /// Begins an operation on staging memory and waits until it is done.
  using operation = std::function<ccl::event(const ccl::communicator&)>;
  ccl_outcome run(const operation& begin, const farandole_path_limits& deadline);

private:
  struct meeting;
  struct memory;

  const farandole_path_set& set_;
  std::string unusable_;
  std::shared_ptr<meeting> meeting_; ///< shared with the thread that may be left behind
  std::unique_ptr<memory> memory_;
};

} // namespace farandole
