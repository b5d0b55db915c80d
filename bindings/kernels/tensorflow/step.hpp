/// The operations in flight, by the step of the graph that they belong to.
///
/// When one operation of a step fails, TensorFlow starts no more of the step's nodes, yet waits for all that it has
/// started. Other ranks may never submit their part of those, because their step has failed as well. So TensorFlow is
/// told that these operations have failed too, whether they still complete or not.
#pragma once

#include <cstdint>

namespace farandole::tensorflow {

/// An operation in flight, owned by the thread that waits for it.
class in_flight {
public:
  /// Called when a step that has failed claims it: it must live until give_up().
  virtual void hold() = 0;
  /// Tells TensorFlow of the failure. The object may be gone afterwards.
  virtual void give_up() = 0;

protected:
  ~in_flight() = default;
};

/// Registers an operation. Returns false, and registers nothing, if an operation of this step has failed already.
bool enter_step(std::int64_t step, in_flight* flight);

/// Removes an operation. Returns false if a failed step has claimed it: then fail_step() tells TensorFlow, and not
/// the caller.
bool leave_step(std::int64_t step, in_flight* flight);

/// One operation of the step has failed, and TensorFlow has been told: claims all others and gives them up.
void fail_step(std::int64_t step);

} // namespace farandole::tensorflow
