// The actors of one generation, as a tree under one supervisor: where this member leads, the negotiator and
// the fusion scheduler, and on every member the mover and the worker. They stand and fall together
// (all-for-one).
#pragma once

#include <functional>
#include <memory>

#include "actors/interfaces.hpp"
#include "actors/kit/log.hpp"
#include "actors/kit/supervision.hpp"
#include "actors/standing.hpp"
#include "messages/settings.hpp"

namespace farandole {

struct generation_setup {
  std::shared_ptr<standing> shared; ///< with rank and members; gets its door and its lane here
  std::uint64_t generation = 0;
  farandole::settings settings = farandole::settings::built_in(); ///< the job's values
  std::string secret;
  post_actor post;
  member_actor member;
  logger* log = nullptr;
};

/// The tree's handles, once all have started.
struct generation_actors {
  fusion_scheduler_actor scheduler; ///< null unless this member leads
  negotiator_actor negotiator;      ///< likewise
  mover_actor mover;
  worker_actor worker;
};

/// What to give to supervisor(). `started` is called in the supervisor's context when the last child runs.
supervisor_spec generation_tree(const generation_setup& how,
                                std::function<void(const generation_actors&)> started);

} // namespace farandole
