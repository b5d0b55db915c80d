// The messages that UCX has not finished, and the posted receive of the next goodbye. How they end is
// reported to their tickets and to the departure protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "collectives/transport/p2p/departure_protocol.hpp"
#include "collectives/transport/ucx/ucx_context.hpp"
#include "collectives/transport/ucx/ucx_endpoints.hpp"
#include "collectives/transport/ucx/ucx_tag.hpp"

namespace farandole {

class ucx_requests {
public:
  /// `group`: generation and set of all goodbyes. The context is destroyed before the requests.
  ucx_requests(ucx_context& context, const ucx_endpoints& endpoints, departure_protocol& departing,
               const ucx_tag& group)
      : context_(context), endpoints_(endpoints), departure_(departing), group_(group) {}
  ucx_requests(const ucx_requests&) = delete;
  ucx_requests& operator=(const ucx_requests&) = delete;

  void meet(std::int32_t rank, std::int32_t members) {
    rank_ = rank;
    receives_.resize(static_cast<std::size_t>(members));
  }

  /// After a failure nothing more is begun, and what was asked for will never be done: the next wait tells.
  void send(std::int32_t peer, const ucx_tag& tag, std::span<const std::byte> bytes, message_ticket& ticket);
  void receive(std::int32_t peer, const ucx_tag& tag, std::span<std::byte> bytes, message_ticket& ticket);

  /// Posts the receive of a goodbye of whatever member, unless it is posted. To be repeated while members are
  /// listened to.
  void listen();
  /// Sends the goodbyes where there are endpoints, and drives UCX until it has taken the messages.
  void say(const goodbye_round& parting, ucx_context::clock::time_point deadline);
  /// They end by their callbacks, when the context is driven or destroyed.
  void cancel_receives();

private:
  /// A request that UCX has not finished. Its address is what UCX gives back.
  struct record {
    ucx_requests* owner = nullptr;
    message_ticket* ticket = nullptr; ///< null: free
    void* request = nullptr;          ///< null: free, or UCX does not need it
    std::int32_t peer = -1;           ///< -1: a goodbye is received, of any member
    bool receives = false;
    std::size_t bytes = 0;
  };

  static void on_sent(void* request, ucs_status_t status, void* owner);
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* owner);

  record& new_record(std::int32_t peer, bool receives, std::size_t bytes, message_ticket& ticket);
  void post_send(std::int32_t peer, std::uint64_t tag, std::span<const std::byte> bytes,
                 message_ticket& ticket);
  void post_receive(std::int32_t peer, std::uint64_t tag, std::uint64_t mask, std::span<std::byte> bytes,
                    message_ticket& ticket);
  /// UCX has no more to do with the message, whose memory is the caller's again.
  void finish(record& done, ucs_status_t status);
  void finish_receive(record& done, ucs_status_t status, const ucp_tag_recv_info_t& info);
  std::uint64_t goodbye_tag(std::int32_t source) const;
  void hear(ucs_status_t status, const ucp_tag_recv_info_t& info);
  /// That receives are posted of a peer that may have left.
  void require(std::int32_t peer);

  ucx_context& context_;
  const ucx_endpoints& endpoints_;
  departure_protocol& departure_;
  const ucx_tag group_;
  std::int32_t rank_ = 0;
  std::deque<record> records_; ///< addresses stay
  std::vector<record*> free_;
  std::vector<std::size_t> receives_; ///< posted and not done, by rank
  goodbye::encoded heard_{};
  goodbye::encoded spoken_{};    ///< here, for a peer may never take it
  message_ticket heard_ticket_;  ///< of the posted receive of a goodbye: at most one is pending
  message_ticket spoken_ticket_; ///< of the own goodbyes
};

} // namespace farandole
