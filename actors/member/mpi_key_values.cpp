#include "actors/member/mpi_key_values.hpp"

#include <array>
#include <cassert>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

namespace farandole {
namespace {

/// The number of the set of these messages. No process set has this number.
constexpr std::uint32_t meeting_set = 0xffffffff;

/// A text with its key. It has a fixed size, so that one message suffices.
struct text_message {
  std::array<char, 64> key{};
  std::array<char, 1024> value{};
};

template <std::size_t Size>
void write(std::array<char, Size>& field, const std::string& text) {
  assert(text.size() < Size);
  std::memcpy(field.data(), text.data(), text.size());
}

template <std::size_t Size>
std::string read(std::array<char, Size>& field) {
  field.back() = 0;
  return field.data();
}

std::span<std::byte> bytes_of(text_message& message) {
  return std::as_writable_bytes(std::span(&message, 1));
}

mpi_set set_of(const mpi_job& job) {
  std::vector<std::int32_t> places(static_cast<std::size_t>(job.group.size));
  std::iota(places.begin(), places.end(), 0);
  return {job.engine,        job.group,      meeting_set,
          std::move(places), job.group.rank, futex_wait::decide(static_cast<unsigned>(job.group.size))};
}

} // namespace

mpi_key_values::mpi_key_values(const mpi_job& job, std::string timeout_setting)
    : messages_(set_of(job)), timeout_setting_(std::move(timeout_setting)) {}

error mpi_key_values::put(const std::string& key, const std::string& value, time_point /*deadline*/) {
  assert(own_.first.empty());
  own_ = {key, value};
  return {};
}

error mpi_key_values::fence(time_point deadline) {
  const abort_token never;
  const deadline_and_abort until{never, deadline, timeout_setting_};
  messages_.begin(++fences_, std::chrono::nanoseconds::zero());
  text_message own;
  write(own.key, own_.first);
  write(own.value, own_.second);
  values_[{rank(), own_.first}] = std::move(own_.second);
  own_ = {};
  message_ticket ticket;
  if (rank() != 0) {
    text_message first;
    messages_.send(0, message_phase::tree, bytes_of(own), ticket);
    messages_.receive(0, message_phase::tree, bytes_of(first), ticket);
    if (auto problem = messages_.wait(ticket, until))
      return problem;
    values_[{0, read(first.key)}] = read(first.value);
    return {};
  }
  std::vector<text_message> others(static_cast<std::size_t>(size()));
  for (std::int32_t other = 1; other < size(); ++other)
    messages_.receive(other, message_phase::tree, bytes_of(others[static_cast<std::size_t>(other)]), ticket);
  if (auto problem = messages_.wait(ticket, until))
    return problem;
  for (std::int32_t other = 1; other < size(); ++other) {
    auto& message = others[static_cast<std::size_t>(other)];
    values_[{other, read(message.key)}] = read(message.value);
    messages_.send(other, message_phase::tree, bytes_of(own), ticket);
  }
  return messages_.wait(ticket, until);
}

expected<std::string> mpi_key_values::get(std::int32_t rank, const std::string& key,
                                          time_point /*deadline*/) {
  const auto found = values_.find({rank, key});
  if (found == values_.end())
    return error{error_kind::unknown, "rank " + std::to_string(rank) + " has sent no text named " + key};
  return found->second;
}

} // namespace farandole
