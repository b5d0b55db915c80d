// The listening half of kit/link.hpp.
#include "actors/kit/link_parts.hpp"
#include "collectives/paths/connections/sockets.hpp"

#include <cassert>
#include <cerrno>

namespace farandole {

namespace {

using resume_atom = caf::atom_constant<caf::atom("resume")>;

constexpr int accepts_per_turn = 16;
constexpr auto accept_pause = std::chrono::milliseconds{200};

struct listener_start {
  std::shared_ptr<descriptor> socket;
  caf::actor owner;
  link_settings settings;
};

class listener_state {
public:
  static inline const char* name = "listener";

  explicit listener_state(caf::event_based_actor* self) : self_(self) {}

  void begin(const listener_start& start) {
    start_ = start;
    watch_ = watch_for(self_, std::move(*start_.socket));
  }

  void readable() {
    for (int i = 0; i < accepts_per_turn && shaking_ < start_.settings.handshakes; ++i) {
      auto accepted = accept_one(watch_.get());
      if (!accepted.socket) {
        if (accepted.error != EAGAIN && accepted.error != EINTR && accepted.error != ECONNABORTED)
          pause(accepted.error);
        break;
      }
      ++shaking_;
      spawn_link(self_->system(), link_start{std::make_shared<descriptor>(std::move(accepted.socket)), "", 0,
                                             start_.owner, caf::actor_cast<caf::actor>(self_),
                                             loop_of(self_->system()).next_accepted_link(), start_.settings});
    }
    watch_.want(shaking_ < start_.settings.handshakes && !paused_, false);
  }

  void settled() {
    --shaking_;
    watch_.want(!paused_, false);
  }

  void resume() {
    paused_ = false;
    watch_.want(shaking_ < start_.settings.handshakes, false);
  }

private:
  /// Out of descriptors or memory: the waiting connection would be reported again at once, for ever.
  void pause(int why) {
    paused_ = true;
    self_->delayed_send(self_, accept_pause, resume_atom::value);
    if (start_.settings.log)
      start_.settings.log->warning("cannot accept a link for now: " + text_of_errno(why));
  }

  caf::event_based_actor* self_;
  listener_start start_;
  unsigned shaking_ = 0;
  bool paused_ = false;
  descriptor_watch watch_;
};

caf::behavior listener(caf::stateful_actor<listener_state>* self, const listener_start& start) {
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  self->monitor(start.owner);
  self->state.begin(start);
  return {
      [self](readable_atom) { self->state.readable(); },
      [self](settled_atom) { self->state.settled(); },
      [self](resume_atom) { self->state.resume(); },
      [](hangup_atom) {},
      [self](close_atom) { self->quit(); },
  };
}

} // namespace

expected<listening> listen(caf::actor_system& system, const std::string& bind_ip, std::uint16_t port,
                           caf::actor owner, const link_settings& settings) {
  assert(owner);
  if (settings.simulated)
    return settings.simulated->listen(bind_ip, port, std::move(owner));
  assert(settings.credentials);
  auto socket = open_listener(bind_ip, port);
  if (!socket)
    return socket.error();
  auto chosen = port_of(*socket);
  auto handle = system.spawn(
      listener, listener_start{std::make_shared<descriptor>(std::move(*socket)), std::move(owner), settings});
  return listening{chosen, std::move(handle)};
}

} // namespace farandole
