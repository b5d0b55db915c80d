#include "collectives/negotiation/paging.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "messages/wire/schedule_order.hpp"

namespace farandole {

namespace {

/// Maximum number of elements, in all lists together, of a schedule that is encoded to measure its size. No list of
/// a message may be longer.
constexpr std::size_t most_elements = std::size_t{1} << 20;

/// The number of pieces that a part can be split into. The events of a change of process sets form one piece,
/// because they must stay in the schedule that contains the `changed` flag.
template <class Element>
std::size_t pieces(const std::vector<Element>& list) {
  return list.size();
}
std::size_t pieces(const std::vector<set_event>& events) {
  return events.empty() ? 0 : 1;
}
template <class Value>
std::size_t pieces(const Value&) {
  return 0;
}

std::size_t pieces_of(const schedule& whole) {
  std::size_t all = 0;
  for_each_part(whole, [&all](auto, const auto& part) { all += pieces(part); });
  return all;
}

/// Moves all but the first `left` pieces of `part` to `later`, and subtracts the pieces that stay from `left`.
template <class Element>
void cut(std::vector<Element>& part, std::vector<Element>& later, std::size_t& left) {
  const auto stay = std::min(left, part.size());
  left -= stay;
  const auto from = part.begin() + static_cast<std::ptrdiff_t>(stay);
  later.assign(std::move_iterator(from), std::move_iterator(part.end()));
  part.erase(from, part.end());
}
void cut(std::vector<set_event>& events, std::vector<set_event>& later, std::size_t& left) {
  if (left == 0)
    return events.swap(later);
  left -= pieces(events);
}
/// A number or flag stays with the parts that follow it.
template <class Value>
void cut(Value& value, Value& later, std::size_t& left) {
  if (left == 0)
    std::swap(value, later);
}

schedule take_later_half(schedule& whole) {
  schedule later;
  auto left = pieces_of(whole) / 2;
  for_each_part(whole, [&]<schedule_part Part>(part_tag<Part>, auto& content) {
    cut(content, part_of<Part>(later), left);
  });
  return later;
}

void add_messages(const address& from, schedule whole, std::size_t most_bytes, std::vector<envelope>& all) {
  const auto count = pieces_of(whole);
  if (count <= most_elements)
    if (auto message = encode(from, whole); count < 2 || message.bytes().size() <= most_bytes) {
      all.push_back(std::move(message));
      return;
    }
  auto later = take_later_half(whole);
  add_messages(from, std::move(whole), most_bytes, all);
  add_messages(from, std::move(later), most_bytes, all);
}

} // namespace

std::vector<envelope> messages_of(const address& from, schedule whole, std::size_t most_bytes) {
  std::vector<envelope> all;
  add_messages(from, std::move(whole), most_bytes, all);
  return all;
}

} // namespace farandole
