#include "actors/drain_call.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "actors/interfaces.hpp"
#include "actors/kit/link.hpp"
#include "actors/kit/loop.hpp"
#include "messages/membership.hpp"

namespace farandole {

namespace {

/// From the loop to the thread that waits.
class answers {
public:
  void put(expected<draining> what) {
    std::lock_guard lock(guard_);
    queue_.push_back(std::move(what));
    came_.notify_all();
  }

  expected<draining> next(std::chrono::nanoseconds longest) {
    std::unique_lock lock(guard_);
    if (!came_.wait_for(lock, longest, [this] { return !queue_.empty(); }))
      return error{error_kind::timed_out, "no answer yet"};
    auto what = std::move(queue_.front());
    // The last word stays: nothing comes after it.
    if (what)
      queue_.pop_front();
    return what;
  }

private:
  std::mutex guard_;
  std::condition_variable came_;
  std::deque<expected<draining>> queue_;
};

struct caller_state {
  static inline const char* name = "drain call";

  void opened(const link_opened& what, const drain& asked) {
    link = what.handle;
    caf::anon_send(link, encode(address{}, asked));
  }

  void received(const envelope& message) const {
    if (message.kind() == wire::Envelope::Body::REFUSED) {
      auto said = decode_refused(message);
      put(error{error_kind::precondition, said ? said->reason : said.error().text});
    } else if (message.kind() == wire::Envelope::Body::DRAINING) {
      put(decode_draining(message));
    }
  }

  void put(expected<draining> what) const { heard->put(std::move(what)); }

  std::shared_ptr<answers> heard;
  caf::actor link; ///< nobody else keeps it: it would hang up without a word
};

using caller_actor = link_owner_actor;

caller_actor::behavior_type caller(caller_actor::stateful_pointer<caller_state> self, const drain& asked,
                                   const std::shared_ptr<answers>& heard) {
  auto& state = self->state;
  state.heard = heard;
  return {
      [&state, asked](const link_opened& what) { state.opened(what, asked); },
      [&state](const link_received& what) { state.received(what.message); },
      [&state](const link_closed& what) {
        state.put(error{error_kind::disconnected, what.reason});
      },
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
