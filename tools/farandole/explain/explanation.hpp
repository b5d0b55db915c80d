// What a job was waiting for, derived from the activities of its ranks: which tensors were pending, which ranks had not
// called them, and what these ranks were doing instead.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/farandole/explain/rank_activity.hpp"

namespace farandole {

/// A tensor that some rank had called and that was not complete on it.
struct pending_tensor {
  tensor_key tensor;
  std::uint8_t operation = 0; ///< of the first rank that called it
  std::uint64_t bytes = 0;
  record_time since{0};               ///< the first of these calls
  std::vector<std::int32_t> called;   ///< ranks
  std::vector<std::int32_t> complete; ///< ranks on which the same call, or a later one, is complete
  std::vector<std::int32_t> missing;  ///< ranks whose records show no such call
  std::vector<std::int32_t> unknown;  ///< ranks without a record
  std::vector<std::int32_t>
      differs; ///< of `called`: ranks that called another operation, or with another size
  std::uint8_t other_operation = 0; ///< of the first of these
  std::uint64_t other_bytes = 0;
};

/// What a rank was doing.
enum class rank_work : std::uint8_t {
  waiting,     ///< a caller waited for a tensor
  on_path,     ///< a lane moved tensors
  user_code,   ///< outside of the library, after its last call
  no_call,     ///< a member that had called nothing
  joining,     ///< had called init(), but was no member yet
  not_started, ///< had not called init()
  gone,        ///< ended without leaving the job
  no_record,   ///< nothing is known of it
};

struct rank_state {
  std::int32_t rank = -1; ///< -1: not a member; `slot` names it
  std::int32_t slot = -1;
  std::string host;
  rank_work work = rank_work::no_record;
  std::optional<tensor_key> tensor; ///< for which it waited; else, of its last call
  bool pending = false;             ///< its last call had not completed
  bool failed = false;              ///< its last call had failed
  std::string path;                 ///< with on_path
  std::optional<record_time> since; ///< of this work
  std::string ending;               ///< how its process ended; empty: it ran
  bool told_to_end = false;
  std::int32_t process = 0; ///< its id on its host; 0: not known
  char state = 0;           ///< of its running process; see record_copy
  std::vector<std::string> stack =
      {}; ///< of its Python code, if it was read: lines, the innermost call first
  std::optional<regroup_state> regroup; ///< set if it was between two generations
};

/// Two ranks that wait for each other's tensor.
struct order_conflict {
  std::int32_t rank = 0;
  tensor_key tensor;
  std::int32_t other = 0;
  tensor_key other_tensor;
};

/// A tensor that ranks called different numbers of times, although no call is pending.
struct count_difference {
  tensor_key tensor;
  std::map<std::int32_t, std::uint64_t> calls; ///< by rank
};

/// A tensor that ranks called after the job had ended.
struct late_tensor {
  tensor_key tensor;
  std::vector<std::int32_t> ranks;
};

struct explanation {
  std::int32_t size = 0;
  std::uint64_t generation = 0;
  record_time time{0};  ///< to which it applies: when the generation ended, or when the records were read
  bool ended = false;   ///< the generation had ended, for a failure or in order, at this time
  bool running = false; ///< it runs: no process had ended either
  std::vector<std::string> reasons;    ///< why the ranks' generation ended, each once
  std::vector<pending_tensor> pending; ///< longest first
  std::vector<rank_state> ranks;       ///< by rank; those that are no members last, by slot
  std::vector<order_conflict> conflicts;
  std::vector<count_difference> counts;
  std::vector<late_tensor> late;
  std::vector<std::int32_t> left;         ///< ranks that left the job, and thereby ended it
  std::vector<pending_tensor> mismatched; ///< calls that failed because the requests of ranks differed

  /// Whether the processes of the job have become its ranks.
  bool came_together() const { return size != 0; }
};

/// The activities are those of different ranks of one job in one generation, or of processes that are no members.
explanation explain_job(const std::vector<rank_activity>& activities, record_time read_at);

} // namespace farandole
