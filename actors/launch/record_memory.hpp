// The memory of a worker's event record, as the process that starts the worker makes it. This process keeps the memory
// as well, so the record can be read when the worker is stopped or has died.
#pragma once

#include "actors/launch/process.hpp"
#include "messages/values/descriptor.hpp"

namespace farandole {

/// Adds memory to the process, which inherits its descriptor under the number in FARANDOLE_RECORDER_FD. Its size follows
/// FARANDOLE_RECORDER_EVENTS in the process's environment. Returns the descriptor, which must stay open until the process
/// has been started. It is empty if the environment disables the record, or if there is no memory: the worker then
/// records into memory of its own.
descriptor add_record_memory(process_spec& process);

} // namespace farandole
