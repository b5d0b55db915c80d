// A messenger over Gloo, for one lane and one generation: messages straight out of and into the caller's
// memory, and waits that end by themselves. A wait that fails (a peer is gone, the abort token was raised,
// the deadline passed) first closes every connection; only then does it return, so no memory is touched
// behind its back.
//
// Members that leave say goodbye and why. So the loss of one member is told by its name to all others, though
// most of them only see that the first to notice has closed its connections. A goodbye also tells which
// message its sender waited for: two members that disagree about the length of a message, which never meet in
// Gloo, find out from it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/paths/exchange/messenger.hpp"
#include "collectives/paths/gloo/gloo_mesh.hpp"
#include "collectives/paths/gloo/gloo_path.hpp"
#include "collectives/paths/gloo/gloo_watch.hpp"

namespace farandole {

/// Used on a thread that blocks SIGPIPE, as lanes do: Gloo writes to connections that may be gone.
class gloo_worker : public messenger {
public:
  static expected<std::unique_ptr<gloo_worker>> open(const gloo_options& options);
  /// Over a mesh that listens already.
  gloo_worker(const gloo_options& options, std::unique_ptr<gloo_mesh> mesh);
  /// Leaves in order, unless it has failed.
  ~gloo_worker() override;
  gloo_worker(const gloo_worker&) = delete;
  gloo_worker& operator=(const gloo_worker&) = delete;

  /// Where this member expects each of the others.
  std::string address() const;
  /// Makes a connection to each member and proves it with a message each way.
  error connect(std::span<const std::string> addresses, const limits& until);

  std::int32_t rank() const override { return rank_; }
  std::int32_t members() const override { return static_cast<std::int32_t>(names_.size()); }
  void send(std::int32_t peer, message_phase phase, std::span<const std::byte> bytes,
            message_ticket& ticket) override;
  void receive(std::int32_t peer, message_phase phase, std::span<std::byte> bytes,
               message_ticket& ticket) override;
  /// Nothing: Gloo has a thread of its own for that.
  void look() override {}
  error wait(const message_ticket& ticket, const limits& until) override;

  /// Ends it for a reason of the caller's own: messages may still be under way from and into its memory.
  void give_up(const error& why);

private:
  using clock = std::chrono::steady_clock;

  struct record {
    std::unique_ptr<gloo_message> message;
    message_ticket* ticket = nullptr;
    std::int32_t peer = -1;
    std::uint64_t slot = 0;
    bool receives = false;
  };
  struct goodbye {
    std::uint64_t slot = 0;       ///< of the message that its sender waited for last
    std::int64_t peer = -1;       ///< of that message; -1: it waited for none
    std::int64_t receives = 0;    ///< 1: it waited to receive it; 0: to send it
    mutable std::int64_t culprit; ///< rank within the set, `in_order` or `silence`; last, so it arrives last
  };
  /// A posted receive of a peer's goodbye. Breaks when the connection does.
  struct ear {
    std::unique_ptr<gloo_message> message;
    goodbye heard; ///< Gloo's thread writes it
    std::int64_t said() const;
  };

  error greet(const limits& until);
  void keep(record begun, const std::string& why);
  void listen_for_goodbyes();

  std::string wait_for(gloo_message& message, std::int32_t peer, const limits& until);
  /// Why this wait must end now; kind none: it may go on.
  error reason_to_stop(std::int32_t peer, const limits& until) const;
  /// Who is to blame for a message to or from this peer that failed.
  error judge(std::int32_t peer, const std::string& why);
  /// What goodbyes say; kind none: nothing yet.
  error judge_by_goodbyes(std::int32_t peer);
  std::int32_t named_culprit() const;
  error lost(std::int32_t culprit, const std::string& why);
  error fail(const error& why);
  /// Of the message that both this member and a peer that has left wait for; empty when they agree.
  std::string difference_of_lengths() const;

  /// `culprit`: rank within the set, or `in_order`.
  void leave(std::int64_t culprit);
  void say_goodbye(std::int64_t culprit);
  std::string name_of(std::int32_t peer) const;

  const std::uint64_t generation_;
  const std::uint32_t set_;
  const std::int32_t rank_;
  const std::vector<std::int32_t> names_; ///< global ranks

  goodbye spoken_{};      ///< what is being said in goodbyes
  std::vector<ear> ears_; ///< by rank; empty until connected, and never moved then
  std::int32_t culprit_ = -1;
  error failure_;

  std::unique_ptr<gloo_mesh> mesh_; ///< null once left
  std::vector<record> under_way_;
  gloo_watch watch_; ///< last: it looks at the others
};

} // namespace farandole
