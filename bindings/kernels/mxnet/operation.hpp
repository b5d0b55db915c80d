// A collective, or several as a group, as one operation of MXNet's dependency engine. The engine runs it when its
// arrays are ready; it then submits them to the job, and the thread that settles it tells the engine of its end.
// Computation that does not depend on its arrays continues meanwhile. The engine's thread that starts a small
// operation waits for it for up to a millisecond, and so runs the collective itself.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bindings/kernels/mxnet/library.hpp"
#include <farandole/kernel_api.h>

namespace farandole::mxnet {

/// The parameters that all tensors of a group share.
struct request {
  std::int32_t operation; // a farandole_operation
  std::int32_t reduce_op;
  std::int32_t root;
  std::uint32_t set;
  double prescale;
  double postscale;
};

class operation {
public:
  /// `mxnet` and `api` must live until the process ends, because the engine may run the operation until then.
  operation(const library& mxnet, const farandole_kernel_api& api, const request& request);
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;
  /// Called when the engine is done with the operation, whether it has run or not: it does not run after a failure of
  /// one of its arrays.
  ~operation();

  /// Adds a tensor; `target` is `source` for an in-place operation. Returns false, with the reason, if the operation
  /// does not support the tensor.
  bool add(const char* name, array source, array target, std::string& problem);

  /// Hands `self` to the engine, which owns it from now on. Returns false, with the reason, if the engine refuses
  /// it, or runs it at once and it fails. Threads that wait for the arrays get any later error.
  static bool push(std::unique_ptr<operation> self, int priority, std::string& problem);

  /// Waits until no pushed operation is left; returns whether that happened in time.
  static bool drain(std::int64_t timeout_ms);

private:
  struct member {
    operation* owner;
    std::string name;
    array source;
    array target;
    description value;
    farandole_handle* handle = nullptr;
  };

  static void run(void* run_context, void* completion, void* parameter);
  static void on_settled(void* which);

  void start();
  bool may_be_reordered(const member& member_info) const;
  std::int64_t elements() const;
  bool settles_soon(farandole_handle* handle) const;
  bool fill(std::vector<farandole_submission>& submissions);
  void fail(const farandole_error& reason);
  void fail(const std::string& text);
  void leave();

  const library& mxnet_;
  const farandole_kernel_api& api_;
  const request request_;
  bool may_wait_ = false; ///< the engine's thread waits for the result, for a short time
  std::vector<std::unique_ptr<member>> members_;
  completion done_{};
  std::atomic<std::size_t> unsettled_ = 0;
  std::mutex mutex_;
  std::string problem_; // the first error
  /// Where push() reads the error, because the operation may be deleted by then.
  std::shared_ptr<std::string> told_;
};

} // namespace farandole::mxnet
