// Pins the runtime's threads to the core that the thread affinity setting names for this member. A setting that cannot
// be applied is logged as an error, and the threads run on any core as before: training is correct in both cases.
#pragma once

#include "actors/event_loop/log.hpp"
#include "messages/settings/settings.hpp"
#include "messages/wire/welcome.hpp"

namespace farandole {

/// Pins the calling thread and all threads that it will start. `log` may be null.
void pin_calling_thread(const settings& values, const member& self, logger* log);

} // namespace farandole
