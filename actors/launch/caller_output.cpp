#include "actors/launch/caller_output.hpp"

#include "messages/values/json_text.hpp"

namespace farandole {

namespace {

void append(std::string& to, std::uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8)
    to += static_cast<char>(number >> shift & 0xffU);
}

std::uint32_t number_at(std::string_view bytes, std::size_t position) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i)
    number |= std::uint32_t{static_cast<unsigned char>(bytes[position + i])} << (8 * i);
  return number;
}

} // namespace

std::string frame_header::encoded() const {
  std::string bytes;
  append(bytes, slot);
  append(bytes, length);
  return bytes;
}

frame_header frame_header::decoded(std::string_view bytes) {
  return {number_at(bytes, 0), number_at(bytes, 4)};
}

std::optional<std::uint32_t> workers_wanted_in(std::string_view body) {
  return body.size() == 4 ? std::optional(number_at(body, 0)) : std::nullopt;
}

void caller_output::send(std::int32_t slot, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.substr(0, most_frame_bytes);
    put(static_cast<std::uint32_t>(slot), piece);
    bytes.remove_prefix(piece.size());
  }
}

void caller_output::started(std::int32_t slot, const std::string& host, std::int32_t process) {
  put(event_slot, "{\"event\": \"started\", \"slot\": " + std::to_string(slot) +
                      ", \"host\": " + json_text(host) + ", \"process\": " + std::to_string(process) + "}");
}

void caller_output::waits_for_agents(const std::string& launcher, const std::string& text) {
  put(event_slot, "{\"event\": \"waits for agents\", \"launcher\": " + json_text(launcher) +
                      ", \"text\": " + json_text(text) + "}");
}

void caller_output::agent_connected(const std::string& host) {
  put(event_slot, "{\"event\": \"agent connected\", \"host\": " + json_text(host) + "}");
}

void caller_output::timed_out() {
  put(event_slot, R"({"event": "timed out"})");
}

void caller_output::retired(std::int32_t slot) {
  put(event_slot, "{\"event\": \"retired\", \"slot\": " + std::to_string(slot) + "}");
}

void caller_output::ended(std::int32_t slot, const std::string& manner) {
  if (complete_.erase(slot) > 0)
    put_ended(slot, manner);
  else
    ended_[slot] = manner;
}

void caller_output::complete(std::int32_t slot) {
  if (const auto ended = ended_.extract(slot))
    put_ended(slot, ended.mapped());
  else
    complete_.insert(slot);
}

void caller_output::put_ended(std::int32_t slot, const std::string& manner) {
  put(event_slot, "{\"event\": \"ended\", \"slot\": " + std::to_string(slot) +
                      ", \"manner\": " + json_text(manner) + "}");
}

void caller_output::put(std::uint32_t slot, std::string_view bytes) {
  auto frame = frame_header{slot, static_cast<std::uint32_t>(bytes.size())}.encoded();
  frame += bytes;
  writer_.write(socket_, std::move(frame));
}

} // namespace farandole
