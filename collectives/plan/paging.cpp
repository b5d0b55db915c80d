#include "collectives/plan/paging.hpp"

#include <utility>

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
std::size_t words_of(const bucket& one) {
  return 3 + one.ids.size();
}
std::size_t words_of(const bundle& one) {
  std::size_t words = 8;
  for (const auto& entry : one.entries)
    words += 6 + entry.name.size() / 8 + entry.first_dims.size();
  return words;
}

class pages {
public:
  explicit pages(std::size_t most_words) : most_(most_words) {}

  template <class Part>
  void add(std::vector<Part>& parts, std::vector<Part> schedule::*list) {
    for (auto& part : parts) {
      const auto words = words_of(part);
      if (words_ > 0 && words > most_ - words_) {
        done_.emplace_back();
        words_ = 0;
      }
      (done_.back().*list).push_back(std::move(part));
      words_ = words < most_ - words_ ? words_ + words : most_;
    }
  }

  schedule& last() { return done_.back(); }
  std::vector<schedule> take() { return std::move(done_); }

private:
  std::size_t most_;
  std::size_t words_ = 0; ///< of the last page, at most `most_`
  std::vector<schedule> done_{1};
};

std::size_t words_of(const schedule& whole) {
  std::size_t words =
      whole.forget.size() + whole.ask.size() + 2 * whole.retract.size() + whole.dissolved.size();
  for (const auto& one : whole.assignments)
    words += words_of(one);
  for (const auto& one : whole.failures)
    words += words_of(one);
  for (const auto& one : whole.bundles)
    words += words_of(one);
  for (const auto& one : whole.buckets)
    words += words_of(one);
  return words;
}

} // namespace

std::vector<schedule> paged(schedule whole, std::size_t most_words) {
  std::vector<schedule> result;
  if (words_of(whole) <= most_words) {
    result.push_back(std::move(whole));
    return result;
  }
  pages book(most_words);
  book.add(whole.assignments, &schedule::assignments);
  book.add(whole.dissolved, &schedule::dissolved);
  book.add(whole.forget, &schedule::forget);
  book.add(whole.retract, &schedule::retract);
  book.add(whole.failures, &schedule::failures);
  book.add(whole.ask, &schedule::ask);
  book.add(whole.bundles, &schedule::bundles);
  book.add(whole.buckets, &schedule::buckets);
  book.last().joined = whole.joined;
  book.last().changed = whole.changed;
  book.last().sets = std::move(whole.sets);
  book.last().restarts = std::move(whole.restarts);
  book.last().end = whole.end;
  book.last().departed = std::move(whole.departed);
  return book.take();
}

} // namespace farandole
