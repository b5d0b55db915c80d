/// Waits for small operations of graphs on a thread of its own.
///
/// Small tensors go over a fast path in shared memory, and are settled by whoever waits for them; where nobody
/// does, the runtime's event loop looks after them ever less often. That would be long for a step of a
/// graph in which one small tensor waits for another. So this thread waits for them, one after another in the
/// order in which they came; if one takes long, all are left to the loop, which also sees to those that never
/// come.
#pragma once

namespace farandole::tensorflow {

/// Something that has been handed in and somebody has to wait for, or that has to be done on another thread.
class waiting {
public:
  /// Whether it has settled, or does within so many milliseconds.
  virtual bool settles_within(int milliseconds) = 0;
  /// It has settled. It is gone afterwards.
  virtual void conclude() = 0;
  /// The runtime calls back when it has settled. It may be gone afterwards.
  virtual void leave_to_runtime() = 0;

protected:
  ~waiting() = default;
};

/// From any thread. Never blocks longer than it takes to put it into a list.
void wait_elsewhere(waiting* small);

} // namespace farandole::tensorflow
