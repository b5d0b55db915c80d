#include "collectives/plan/paging.hpp"

#include <optional>
#include <utility>

#include "messages/schedule_order.hpp"

namespace farandole {

namespace {

std::size_t words_of(std::uint32_t) {
  return 1;
}
std::size_t words_of(const board_round&) {
  return 2;
}
std::size_t words_of(const assignment& one) {
  return 12 + one.name.size() / 8 + one.signature.shape.size();
}
std::size_t words_of(const failure& one) {
  return 5 + one.name.size() / 8 + one.reason.text.size() / 8;
}
std::size_t words_of(const inline_value& one) {
  return 3 + one.bytes.size() / 8;
}
std::size_t words_of(const bucket& one) {
  return 3 + one.ids.size();
}
std::size_t words_of(const bundle& one) {
  std::size_t words = 8;
  for (const auto& entry : one.entries)
    words += 6 + entry.name.size() / 8 + entry.first_dims.size();
  return words;
}
std::size_t words_of(const set_event& one) {
  return 4 + (one.ranks.size() + 1) / 2;
}
std::size_t words_of(const set_restart& one) {
  return 5 + one.reason.size() / 8 + (one.begins ? words_of(*one.begins) : 0);
}
/// Numbers and flags are part of every message.
std::size_t words_of(std::int32_t) {
  return 0;
}
std::size_t words_of(bool) {
  return 0;
}
std::size_t words_of(const std::optional<departed_member>& one) {
  return one ? 4 + one->how.exception.size() / 8 : 0;
}
template <class Element>
std::size_t words_of(const std::vector<Element>& list) {
  std::size_t words = 0;
  for (const auto& one : list)
    words += words_of(one);
  return words;
}

std::size_t words_of(schedule& whole) {
  std::size_t words = 0;
  for_each_part(whole, [&words](auto, const auto& part) { words += words_of(part); });
  return words;
}

class pages {
public:
  explicit pages(std::size_t most_words) : most_(most_words) {}

  /// A list is cut between its elements.
  template <schedule_part Part, class Element>
  void add(part_tag<Part>, std::vector<Element>& list) {
    for (auto& element : list)
      part_of<Part>(page_for(words_of(element))).push_back(std::move(element));
  }
  /// What has changed stands in one schedule with the word that it has.
  void add(part_tag<schedule_part::sets>, std::vector<set_event>& events) {
    page_for(words_of(events)).sets = std::move(events);
  }
  template <schedule_part Part, class Value>
  void add(part_tag<Part>, Value& value) {
    part_of<Part>(done_.back()) = value;
  }

  std::vector<schedule> take() { return std::move(done_); }

private:
  /// The last page, or a new one where this would not fit there.
  schedule& page_for(std::size_t words) {
    if (words_ > 0 && words > most_ - words_) {
      done_.emplace_back();
      words_ = 0;
    }
    words_ = words < most_ - words_ ? words_ + words : most_;
    return done_.back();
  }

  std::size_t most_;
  std::size_t words_ = 0; ///< of the last page, at most `most_`
  std::vector<schedule> done_{1};
};

} // namespace

std::vector<schedule> paged(schedule whole, std::size_t most_words) {
  std::vector<schedule> result;
  if (words_of(whole) <= most_words) {
    result.push_back(std::move(whole));
    return result;
  }
  pages book(most_words);
  for_each_part(whole, [&book](auto part, auto& content) { book.add(part, content); });
  return book.take();
}

} // namespace farandole
