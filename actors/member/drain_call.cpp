#include "actors/member/drain_call.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "actors/event_loop/link.hpp"
#include "actors/event_loop/link_messages.hpp"
#include "actors/event_loop/loop.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

namespace {

/// Queue of answers from the event loop to the waiting thread.
class answers {
public:
  void put(expected<draining> draining_result) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(draining_result));
    came_.notify_all();
  }

  expected<draining> next(std::chrono::nanoseconds longest) {
    std::unique_lock lock(mutex_);
    if (!came_.wait_for(lock, longest, [this] { return !queue_.empty(); }))
      return error{error_kind::timed_out, "no answer yet"};
    if (!queue_.front())
      return queue_.front(); // an error is the last entry and stays, so that later calls return it again
    auto value = std::move(queue_.front());
    queue_.pop_front();
    return value;
  }

private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<expected<draining>> queue_;
};

/// Accepts at most two answers: the second one reports that all leaving workers have ended. Everything after the
/// second answer, an error or an invalid message is ignored, so the memory is bounded regardless of the peer.
struct caller_state {
  static inline const char* name = "drain call";

  void opened(const link_opened& event, const drain& asked) {
    link = event.handle;
    caf::anon_send(link, encode(address{}, asked));
  }

  void received(const envelope& message) {
    if (over)
      return;
    if (message.kind() == wire::Envelope::Body::REFUSED) {
      auto refusal = decode_refused(message);
      return end(error{error_kind::precondition, refusal ? refusal->reason : refusal.error().text});
    }
    auto answer = decode_draining(message);
    if (!answer)
      return end(error{error_kind::precondition, answer.error().text});
    const bool first = !std::exchange(answered, true);
    if (!first && !answer->all_out)
      return end(error{error_kind::precondition, "the rendezvous answered twice that workers are to leave"});
    if (first && answer->problem.empty())
      return heard->put(std::move(answer));
    end(std::move(answer));
  }

  void closed(const std::string& reason) { end(error{error_kind::disconnected, reason}); }

  void end(expected<draining> last) {
    if (std::exchange(over, true))
      return;
    heard->put(std::move(last));
    if (link)
      caf::anon_send(link, close_atom::value);
  }

  std::shared_ptr<answers> heard;
  caf::actor link; ///< the only reference to the link: without it the link would end without a message
  bool answered = false;
  bool over = false;
};

using caller_actor = link_owner_actor;

caller_actor::behavior_type caller(caller_actor::stateful_pointer<caller_state> self, const drain& asked,
                                   const std::shared_ptr<answers>& heard) {
  auto& state = self->state;
  state.heard = heard;
  return {
      [&state, asked](const link_opened& event) { state.opened(event, asked); },
      [&state](const link_received& event) { state.received(event.message); },
      [&state](const link_closed& event) { state.closed(event.reason); },
  };
}

} // namespace

struct drain_call::parts {
  std::shared_ptr<answers> heard = std::make_shared<answers>();
  loop_system system;
  caller_actor actor;
};

drain_call::drain_call(const target& job, const drain& asked) : parts_(std::make_unique<parts>()) {
  parts_->actor = parts_->system.get().spawn(caller, asked, parts_->heard);
  link_settings links;
  links.credentials = std::make_shared<const tls_credentials>(job.secret);
  links.connect_timeout = job.connect_timeout;
  dial(parts_->system.get(), job.ip, job.port, caf::actor_cast<caf::actor>(parts_->actor), 1, links);
}

drain_call::~drain_call() {
  caf::anon_send_exit(parts_->actor, caf::exit_reason::user_shutdown);
  parts_->actor = nullptr;
}

expected<draining> drain_call::next(std::chrono::nanoseconds longest) {
  return parts_->heard->next(longest);
}

} // namespace farandole
