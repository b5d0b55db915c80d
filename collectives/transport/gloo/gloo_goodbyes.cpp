#include "collectives/transport/gloo/gloo_goodbyes.hpp"

#include <algorithm>
#include <atomic>
#include <span>
#include <string>

#include "collectives/transport/gloo/gloo_slot.hpp"

namespace farandole {

void gloo_goodbyes::listen(gloo_mesh& mesh, std::int32_t rank, std::int32_t members,
                           departure_protocol& departing) {
  receives_ = std::vector<receive>(static_cast<std::size_t>(members));
  for (std::int32_t peer = 0; peer < members; ++peer) {
    if (peer == rank)
      continue;
    receive& receive_request = receives_[static_cast<std::size_t>(peer)];
    const auto memory = std::as_writable_bytes(std::span{receive_request.words});
    std::string problem;
    receive_request.message.reset(mesh.receive(peer, gloo_slot(message_phase::goodbye, memory.size()),
                                               memory.data(), memory.size(), problem));
    if (!receive_request.message)
      departing.lose_connection(peer, problem);
  }
}

std::uint64_t gloo_goodbyes::receive::last_word() const {
  return std::atomic_ref(words.back()).load(std::memory_order_acquire);
}

/// The bytes are received in ascending order, and the last byte of the mark is not zero.
bool gloo_goodbyes::receive::arrived() const {
  return last_word() >> 56 != 0;
}

bool gloo_goodbyes::receive::in_order() const {
  return static_cast<std::int32_t>(last_word()) == goodbye::in_order;
}

bool gloo_goodbyes::failure_announced() const {
  return std::any_of(receives_.begin(), receives_.end(), [](const receive& receive_request) {
    return receive_request.arrived() && !receive_request.in_order();
  });
}

bool gloo_goodbyes::broken(std::int32_t peer) const {
  const receive& receive_request = receives_[static_cast<std::size_t>(peer)];
  return receive_request.message && !receive_request.arrived() && receive_request.message->broken();
}

void gloo_goodbyes::report(departure_protocol& departing) const {
  for (const bool orderly : {false, true})
    for (std::size_t peer = 0; peer < receives_.size(); ++peer)
      if (const receive& receive_request = receives_[peer];
          receive_request.arrived() && receive_request.in_order() == orderly)
        departing.receive_goodbye(static_cast<std::int32_t>(peer),
                                  std::as_bytes(std::span{receive_request.words}));
}

void gloo_goodbyes::report_broken(departure_protocol& departing) const {
  for (std::int32_t peer = 0; peer < static_cast<std::int32_t>(receives_.size()); ++peer)
    if (broken(peer))
      departing.lose_connection(peer, "it has closed the connection");
}

} // namespace farandole
