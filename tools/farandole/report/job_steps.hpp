// The steps of a job: those that its program marks (mark_step()), or those that recurring names tell (step_cycle.hpp).
// Only steps that the records of all ranks contain as a whole count.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/farandole/report/matched_calls.hpp"
#include "tools/farandole/report/rank_trace.hpp"

namespace farandole {

struct time_span {
  trace_time begin{0};
  trace_time end{0};

  trace_time length() const { return end - begin; }
};

struct job_step {
  std::int64_t number = 0;      ///< of the mark at its end; without marks, counted from 1
  std::vector<time_span> ranks; ///< by trace, each on the clock of its host
};

struct job_steps {
  bool marked = false;
  tensor_key first;            ///< without marks: the tensor with which a step begins
  std::size_t other_kinds = 0; ///< without marks: steps that begin with another tensor, and do not count
  std::vector<job_step> steps; ///< by time
  std::string problem;         ///< why there are none
};

job_steps find_steps(std::span<const rank_trace> traces, const matched_calls& matched,
                     const traced_tensors& tensors);

} // namespace farandole
