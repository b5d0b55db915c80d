/// What is in flight, by the step of the graph that it belongs to.
///
/// When one operation of a step fails, TensorFlow starts no more of the step's nodes, yet waits for all that
/// it has started. Other ranks may never bring their part of those, because their step has failed as well. So
/// TensorFlow is told that they have failed, too, whatever becomes of them.
#pragma once

#include <cstdint>

namespace farandole::tensorflow {

/// Something in flight, owned by whoever waits for it.
class in_flight {
public:
  /// Claimed by a step that has failed: it must live until give_up().
  virtual void hold() = 0;
  /// TensorFlow is told. It may be gone afterwards.
  virtual void give_up() = 0;

protected:
  ~in_flight() = default;
};

/// False if an operation of this step has failed already: then nothing is noted.
bool enter_step(std::int64_t step, in_flight* flight);

/// False if it was claimed: then what TensorFlow learns of it is the claimer's affair.
bool leave_step(std::int64_t step, in_flight* flight);

/// One operation of the step has failed, and TensorFlow knows: claims all others and gives them up.
void fail_step(std::int64_t step);

} // namespace farandole::tensorflow
