#include "actors/process_set/split_exchange.hpp"

#include <catch2/catch.hpp>

#include <cstring>
#include <limits>

using namespace farandole;
using numbers = std::vector<std::int64_t>;
using sizes = std::vector<std::size_t>;

namespace {

/// The members of a set, and a path between them that carries out alltoall as path.hpp defines it.
class exchanging_members {
public:
  explicit exchanging_members(const std::vector<numbers>& splits) {
    for (const auto& own : splits)
      exchanges_.emplace_back(own);
    for (auto& exchange : exchanges_)
      questions_.push_back(exchange.question());
    for (std::size_t receiver = 0; receiver < questions_.size(); ++receiver)
      receive(receiver);
  }

  /// Replaces the words that `receiver` got from `sender`: the rows for `receiver`, and the most rows for any member.
  void lie(std::size_t sender, std::size_t receiver, std::int64_t rows, std::int64_t limit) {
    const std::int64_t words[] = {rows, limit};
    std::memcpy(questions_[receiver].parts[0].output + sender * sizeof words, words, sizeof words);
  }

  error answer(std::size_t member, std::size_t row_bytes) {
    bundles_.resize(questions_.size());
    bundles_[member].parts.resize(1);
    return exchanges_[member].answer("tokens", row_bytes, bundles_[member]);
  }
  const work& question(std::size_t member) const { return questions_[member]; }
  const work& bundle(std::size_t member) const { return bundles_[member]; }
  const numbers& rows(std::size_t member) const { return exchanges_[member].received(); }

private:
  void receive(std::size_t receiver) {
    auto* target = questions_[receiver].parts[0].output;
    for (std::size_t sender = 0; sender < questions_.size(); ++sender) {
      const auto& from = questions_[sender];
      REQUIRE(from.sent[receiver] == questions_[receiver].received[sender]);
      REQUIRE(from.sent[receiver] <= from.longest);
      const auto* source = from.parts[0].input;
      for (std::size_t before = 0; before < receiver; ++before)
        source += from.sent[before];
      std::memcpy(target, source, from.sent[receiver]);
      target += from.sent[receiver];
    }
  }

  std::vector<split_exchange> exchanges_;
  std::vector<work> questions_;
  std::vector<work> bundles_;
};

} // namespace

TEST_CASE("after the exchange, every member knows the rows it receives and the size of the longest piece") {
  exchanging_members members({{1, 0, 4}, {2, 2, 2}, {0, 0, 0}});
  const std::vector<numbers> rows{{1, 2, 0}, {0, 2, 0}, {4, 2, 0}};
  for (std::size_t member = 0; member < 3; ++member) {
    REQUIRE_FALSE(members.answer(member, 12));
    CHECK(members.rows(member) == rows[member]);
    sizes bytes;
    for (auto count : rows[member])
      bytes.push_back(static_cast<std::size_t>(count) * 12);
    CHECK(members.bundle(member).received == bytes);
    CHECK(members.bundle(member).longest == 48);
  }
}

TEST_CASE("every member sends sixteen bytes to each member in the split exchange") {
  exchanging_members members({{0, 0}, {5, 1}});
  for (std::size_t member = 0; member < 2; ++member) {
    const auto& question = members.question(member);
    CHECK(question.operation == operation::alltoall);
    CHECK(question.sent == sizes{16, 16});
    CHECK(question.received == sizes{16, 16});
    CHECK(question.longest == 16);
    CHECK(question.parts.at(0).input_bytes == 32);
  }
}

TEST_CASE("the only member of a set sends its rows to itself") {
  exchanging_members alone(std::vector<numbers>{{3}});
  REQUIRE_FALSE(alone.answer(0, 8));
  CHECK(alone.rows(0) == numbers{3});
  CHECK(alone.bundle(0).received == sizes{24});
  CHECK(alone.bundle(0).longest == 24);
}

TEST_CASE("rows of zero bytes are counted too") {
  exchanging_members members({{1, 3}, {0, 2}});
  REQUIRE_FALSE(members.answer(1, 0));
  CHECK(members.rows(1) == numbers{3, 2});
  CHECK(members.bundle(1).received == sizes{0, 0});
  CHECK(members.bundle(1).longest == 0);
}

TEST_CASE("impossible answers are refused, and the error names the tensor and the rank") {
  constexpr auto limit = std::numeric_limits<std::int64_t>::max();
  const auto said = [&](std::int64_t rows, std::int64_t longest) {
    exchanging_members members({{1, 1}, {1, 1}});
    members.lie(1, 0, rows, longest);
    return members.answer(0, 12);
  };
  CHECK_FALSE(said(5, 7));
  CHECK_FALSE(said(limit / 12 - 1, limit / 12));
  for (const auto& problem :
       {said(-1, 4), said(5, 4), said(1, limit / 12 + 1), said(limit / 12, limit / 12)}) {
    CHECK(problem.kind == error_kind::unknown);
    CHECK_THAT(problem.text, Catch::Contains("tokens") && Catch::Contains("rank 1"));
  }
}
