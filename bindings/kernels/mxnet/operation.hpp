// A collective, or several as a group, as one operation of MXNet's dependency engine: it runs when its arrays
// are ready and hands them to the job; the engine hears of its end from whichever thread settles it. So
// whatever does not depend on its arrays goes on meanwhile. The thread of the engine that starts a small
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

/// What is asked of every tensor of a group.
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
  /// Keeps what the engine runs on to the end of the process.
  operation(const library& mxnet, const farandole_kernel_api& api, const request& request);
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;
  /// The engine is done with it, whether it has run or not: after a failure of an array, it does not.
  ~operation();

  /// One more tensor; `target` is `source` for what is done in place. False, with the reason, if it cannot
  /// travel.
  bool add(const char* name, array source, array target, std::string& problem);

  /// Hands itself to the engine, which owns it from now on. What went wrong in operations that the engine
  /// runs at once is told here; otherwise who waits for the arrays is told. False with the reason.
  static bool push(std::unique_ptr<operation> self, int priority, std::string& problem);

  /// Waits until none is left that was pushed; whether that was so in time.
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
  std::mutex guard_;
  std::string problem_; // the first
  /// Where `push` reads the problem when the operation may be gone already.
  std::shared_ptr<std::string> told_;
};

} // namespace farandole::mxnet
