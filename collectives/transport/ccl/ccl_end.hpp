// One member's end of a oneCCL communicator. oneCCL calls can neither be interrupted nor given a deadline:
// creating a communicator blocks, and a started operation can only be tested for completion. Therefore:
// - communicators are created on a separate thread, which is abandoned if the wait for it fails;
// - operations use only staging memory, never the caller's buffers; if the wait for an operation fails, the
//   operation and its staging memory are leaked to oneCCL;
// - communicators are always leaked, because their destructor also waits for the other members.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <oneapi/ccl.hpp>

#include <farandole/path_plugin.h>

namespace farandole {

/// Status of a call, and the reason if it failed.
struct ccl_outcome {
  farandole_path_status status = FARANDOLE_PATH_OK;
  std::string reason;
};

/// Not thread-safe.
class ccl_end {
public:
  /// Starts oneCCL. If that fails, unusable() returns the reason.
  explicit ccl_end(const farandole_path_set& set);
  ~ccl_end();
  ccl_end(const ccl_end&) = delete;
  ccl_end& operator=(const ccl_end&) = delete;

  const farandole_path_set& set() const { return set_; }
  const std::string& unusable() const { return unusable_; }

  /// On rank 0, the address of the key-value store at which the members meet; on other ranks empty.
  std::string address() const;
  /// Creates the communicator with the other members. `store_address` is address() of rank 0.
  ccl_outcome meet(const std::string& store_address, const farandole_path_limits& deadline);

  /// Returns memory for the next operation, aligned for every type and never null. It is valid until the
  /// next call.
  std::byte* staging(std::size_t bytes);

  /// Starts an operation on staging memory and waits for its completion.
  using operation = std::function<ccl::event(const ccl::communicator&)>;
  ccl_outcome run(const operation& begin, const farandole_path_limits& deadline);

private:
  struct meeting;
  struct memory;

  const farandole_path_set& set_;
  std::string unusable_;
  std::shared_ptr<meeting> meeting_; ///< shared with the thread of meet(), which may outlive this object
  std::unique_ptr<memory> memory_;
};

} // namespace farandole
