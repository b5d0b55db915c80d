// Which data paths an elastic job cannot have: those that do not outlive the loss of a member.
#pragma once

#include "messages/error.hpp"
#include "messages/settings.hpp"

namespace farandole {

/// Why a job of these settings, if it is elastic, cannot be, and what to do; kind none: it can.
error objection_to_path(const settings& values);

} // namespace farandole
