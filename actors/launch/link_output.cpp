#include "actors/launch/link_output.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

link_output::link_output(process_number number, std::size_t window_bytes,
                         std::function<void(const envelope&)> send)
    : number_(number), window_bytes_(window_bytes), send_(std::move(send)) {}

void link_output::write(int stream, std::string_view bytes) {
  if (!send_)
    return;
  flows_[stream].unacknowledged_bytes += bytes.size();
  while (!bytes.empty()) {
    const auto piece = bytes.substr(0, most_stream_bytes);
    send_(encode(process_output{number_, stream, std::string(piece), false}));
    bytes.remove_prefix(piece.size());
  }
}

void link_output::end(int stream) {
  if (send_)
    send_(encode(process_output{number_, stream, {}, true}));
}

bool link_output::full(int stream) const {
  return flows_[stream].unacknowledged_bytes >= window_bytes_;
}

void link_output::when_there_is_room(int stream, std::function<void()> action) {
  if (full(stream))
    flows_[stream].room = std::move(action);
  else
    action();
}

void link_output::consumed(int stream, std::size_t bytes) {
  auto& flow = flows_[stream];
  flow.unacknowledged_bytes -= std::min(bytes, flow.unacknowledged_bytes);
  if (!full(stream) && flow.room)
    std::exchange(flow.room, nullptr)();
}

void link_output::release() {
  send_ = nullptr;
  for (int stream = 0; stream < output_streams; ++stream)
    consumed(stream, flows_[stream].unacknowledged_bytes);
}

} // namespace farandole
