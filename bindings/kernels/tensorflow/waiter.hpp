/// Waits for small operations of graphs on a thread of its own.
///
/// Small tensors go over a fast path in shared memory, where a waiting thread settles them. Without one, the
/// runtime's event loop checks them at growing intervals, which is too slow for a step of a graph in which one
/// small tensor depends on another. So this thread waits for them, one after another in order of arrival. If one
/// takes long, all of them are left to the event loop, which also handles those that never complete.
#pragma once

namespace farandole::tensorflow {

/// A submitted operation that a thread has to wait for, or work that has to be done on another thread.
class waiting {
public:
  /// Whether it has settled, or settles within this many milliseconds.
  virtual bool settles_within(int milliseconds) = 0;
  /// Called when it has settled. The object is gone afterwards.
  virtual void conclude() = 0;
  /// Lets the runtime call back when it has settled. The object may be gone afterwards.
  virtual void leave_to_runtime() = 0;

protected:
  ~waiting() = default;
};

/// Thread-safe. Blocks only for as long as it takes to append to a list.
void wait_elsewhere(waiting* small);

} // namespace farandole::tensorflow
