#include "messages/record/event_kinds.hpp"

#include <catch2/catch.hpp>

#include <set>

using namespace farandole;

TEST_CASE("every kind has one row with a name, a writer and a meaning") {
  std::set<event_kind> kinds;
  std::set<std::string_view> texts;
  for (const auto& row : event_table()) {
    CHECK(find_event_row(row.kind) == &row);
    CHECK_FALSE(row.writer.empty());
    CHECK_FALSE(row.meaning.empty());
    kinds.insert(row.kind);
    texts.insert(row.text);
  }
  CHECK(kinds.size() == static_cast<std::size_t>(event_kind::gap));
  CHECK(texts.size() == kinds.size());
}

TEST_CASE("numbers of no kind have no row") {
  CHECK(find_event_row(event_kind{}) == nullptr);
  CHECK(find_event_row(static_cast<event_kind>(255)) == nullptr);
}

TEST_CASE("the page lists every kind, and marks those that only a timeline records") {
  const auto page = event_page();
  for (const auto& row : event_table())
    CHECK(page.find("| " + std::string(row.text) + (row.detailed ? "\\*" : "") + " |") != std::string::npos);
}

TEST_CASE("a field holds two numbers") {
  const auto field = pair_field(4'000'000'000U, 7);
  CHECK(high_half(field) == 4'000'000'000U);
  CHECK(low_half(field) == 7);
}

TEST_CASE("each trigger of a bundle has a text") {
  CHECK(to_string(cut_trigger::lane_idle) == "lane idle");
  CHECK(to_string(cut_trigger::full) == "full");
  CHECK(to_string(cut_trigger::flushed) == "flushed");
  CHECK(to_string(cut_trigger{}) == "unknown");
}
