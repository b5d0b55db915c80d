// What a member records about its job: the generations that it enters and leaves, and the phases in between.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "actors/process_set/shared_state.hpp"
#include "messages/record/event_recorder.hpp"
#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// The record that the settings ask for: in the launcher's memory, in a file, or in memory of this process. It records
/// nothing if the settings disable it, or if the memory cannot be had; `problem` then says why.
std::shared_ptr<event_recorder> open_event_recorder(const settings& values, std::string& problem);

/// A number by which readers recognize the records of one job. It is derived from the job's secret, and nothing about the
/// secret can be learnt from it. 0 for a job of one process, which has none.
std::uint64_t recorded_job(const std::string& secret);

/// The member has entered the generation that `shared` describes.
void record_generation_begin(const shared_member_state& shared, const std::string& secret);
void record_generation_end(const shared_member_state& shared, const error& reason);

void record_regroup(const shared_member_state& shared, regroup_phase phase, std::uint64_t generation);
/// The generation of which this process was last a member, according to its record; 0: none.
std::uint64_t recorded_generation(const shared_member_state& shared);

} // namespace farandole
