// What a rank was doing, in words: the parts of sentences about it.
#pragma once

#include <string>

#include "tools/farandole/explain/explanation.hpp"

namespace farandole {

/// "120 ms", "3.5 s".
std::string duration_text(record_time duration);
/// A verb in the past tense if the job had ended, otherwise in the present.
std::string in_tense(const explanation& job, const char* past, const char* present);
/// "rank 3 on node-a", "the process of slot 3 on node-a".
std::string process_text(const rank_state& state);
/// What the rank was doing and how its process ended, as the rest of a sentence.
std::string activity_text(const rank_state& state, const explanation& job);

} // namespace farandole
