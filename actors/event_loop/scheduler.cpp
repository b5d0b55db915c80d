#include "actors/event_loop/scheduler.hpp"

#include "actors/event_loop/loop.hpp"

namespace farandole {

namespace {

class silent_printer final : public caf::monitorable_actor {
public:
  explicit silent_printer(caf::actor_config& config) : monitorable_actor(config) {}
  void enqueue(caf::mailbox_element_ptr, caf::execution_unit*) override {}
  void enqueue(caf::strong_actor_ptr, caf::message_id, caf::message, caf::execution_unit*) override {}
};

} // namespace

caf::actor make_silent_printer(caf::actor_system& system, caf::execution_unit* context) {
  caf::actor_config config{context};
  return caf::make_actor<silent_printer, caf::actor>(system.next_actor_id(), system.node(), &system, config);
}

loop_scheduler::loop_scheduler(caf::actor_system& system)
    : abstract_coordinator(system),
      clock_([this](caf::actor_clock::time_point when) { loop_of(this->system()).set_timer(when); }) {}

void loop_scheduler::enqueue(caf::resumable* job) {
  loop_of(system()).exec_later(job);
}

void loop_scheduler::start() {
  auto& loop = loop_of(system());
  utility_actors_[printer_id] = make_silent_printer(system(), &loop);
  loop.on_timer([this] { clock_.fire(); });
}

void loop_scheduler::stop() {
  utility_actors_[printer_id] = nullptr;
}

} // namespace farandole
