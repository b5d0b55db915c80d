#include "elastic/journal_format.hpp"

#include <catch2/catch.hpp>

#include <random>

#include "elastic/membership.hpp"

using namespace farandole;

namespace {

using bytes = std::vector<std::byte>;

constexpr std::size_t head_bytes = 24; // of a record

hello from_slot(std::int32_t slot, std::int32_t size) {
  hello value;
  value.slot = slot;
  value.size = size;
  value.host = slot % 2 == 0 ? "a" : "b";
  value.host_name = value.host;
  value.address = "127.0.0.1:" + std::to_string(5000 + slot);
  value.process = 1000 + slot;
  return value;
}

/// A job to which anything may happen that a rendezvous hears of.
class history {
public:
  explicit history(unsigned seed) : chance_(seed), job_({3, true, 1, 5}, 7) {}

  void step() {
    const auto slot = static_cast<std::int32_t>(draw(8));
    const auto route = route_of(slot);
    switch (draw(7)) {
    case 0:
      return job_.expect(slot);
    case 1:
      return ignore(job_.join(++routes_[slot], from_slot(slot, 3)));
    case 2:
      return ignore(job_.leave(route, job_.generation()));
    case 3:
      return ignore(job_.disconnect(route, "closed its connection"));
    case 4:
      return draw(4) == 0 ? ignore(job_.exit(slot, "exited with code 3")) : void();
    case 5:
      return draw(4) == 0 ? ignore(job_.retire(slot)) : void();
    default:
      return ignore(job_.report(route, {job_.generation(), slot % 3, "closed its connection"}));
    }
  }
  void restart() { job_ = membership::restored(job_.image(), job_.epoch() + 1); }
  const membership& job() const { return job_; }
  std::size_t draw(std::size_t below) { return chance_() % below; }

private:
  static void ignore(const membership_decision&) {}
  route route_of(std::int32_t slot) {
    return routes_.try_emplace(slot, static_cast<route>(1000 * (slot + 1))).first->second;
  }

  std::mt19937 chance_;
  membership job_;
  std::map<std::int32_t, route> routes_;
};

void append(bytes& file, const bytes& more) {
  file.insert(file.end(), more.begin(), more.end());
}

/// Three records, and where each of them begins; last, where the file ends.
struct sample {
  bytes file = journal_header();
  std::vector<std::size_t> offsets;
  std::vector<job_image> images; ///< after so many records

  sample() {
    history past(1);
    job_image before;
    for (int number = 0; number < 3; ++number) {
      for (int i = 0; i < 20; ++i)
        past.step();
      const auto now = past.job().image();
      offsets.push_back(file.size());
      append(file, number == 0 ? journal_entry(journal_record::snapshot, now)
                               : journal_entry(journal_record::change, difference(before, now)));
      images.push_back(before = now);
    }
    offsets.push_back(file.size());
  }
};

} // namespace

TEST_CASE("what a journal gives back is what was written, whatever happened to the job") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    history past(seed);
    auto before = past.job().image();
    auto file = journal_header();
    append(file, journal_entry(journal_record::snapshot, before));
    for (int i = 0; i < 150; ++i) {
      past.step();
      const auto now = past.job().image();
      append(file, past.draw(20) == 0 ? journal_entry(journal_record::snapshot, now)
                                      : journal_entry(journal_record::change, difference(before, now)));
      before = now;
    }
    const auto content = replay(file);
    REQUIRE(content);
    CHECK(content->sound_bytes == file.size());
    REQUIRE(content->job);
    CHECK(*content->job == before);
    CHECK(membership::restored(*content->job, before.epoch).image() == before);
  }
}

TEST_CASE("a journal that is cut anywhere gives back what was whole") {
  const sample made;
  for (std::size_t size = 0; size <= made.file.size(); ++size) {
    INFO("cut to " << size << " bytes");
    const auto content = replay(std::span(made.file).first(size));
    REQUIRE(content);
    std::size_t whole = 0;
    while (whole < 3 && made.offsets[whole + 1] <= size)
      ++whole;
    CHECK(content->sound_bytes == (size < journal_header_bytes ? 0 : made.offsets[whole]));
    CHECK(content->job.has_value() == (whole > 0));
    if (whole > 0)
      CHECK(*content->job == made.images[whole - 1]);
  }
}

TEST_CASE("blocks that never reached the disk are a torn end") {
  const sample made;
  std::vector<std::size_t> all{0, made.offsets[1]};
  // Also in the head of the last record.
  for (auto kept = made.offsets[2]; kept <= made.offsets[2] + head_bytes + 8; ++kept)
    all.push_back(kept);
  for (const auto kept : all) {
    INFO("kept " << kept << " bytes");
    auto file = made.file;
    std::fill(file.begin() + static_cast<std::ptrdiff_t>(kept), file.end(), std::byte{0});
    const auto content = replay(file);
    REQUIRE(content);
    CHECK(content->sound_bytes <= kept);
  }
}

TEST_CASE(
    "one wrong byte is refused with its record's offset, or is in the last record, which counts as torn") {
  const sample made;
  for (std::size_t at = 0; at < made.file.size(); ++at) {
    INFO("byte " << at);
    auto file = made.file;
    file[at] ^= std::byte{0x10};
    const auto content = replay(file);
    if (at < journal_header_bytes) {
      CHECK_FALSE(content);
      continue;
    }
    std::size_t record = 0;
    while (made.offsets[record + 1] <= at)
      ++record;
    const bool in_head_proper = at < made.offsets[record] + 16;
    if (record == 2 && !in_head_proper) {
      REQUIRE(content);
      CHECK(content->sound_bytes == made.offsets[2]);
      CHECK(*content->job == made.images[1]);
      continue;
    }
    REQUIRE_FALSE(content);
    CHECK_THAT(content.error().text,
               Catch::Contains("damaged at byte " + std::to_string(made.offsets[record]) + ":"));
  }
}

TEST_CASE("what is no journal, or one of another version, is refused") {
  const std::string text = "#!/bin/sh\n";
  const auto other = replay(std::as_bytes(std::span(text)));
  REQUIRE_FALSE(other);
  CHECK_THAT(other.error().text, Catch::Contains("no journal"));
  auto file = journal_header();
  file[8] = std::byte{2};
  const auto later = replay(file);
  REQUIRE_FALSE(later);
  CHECK_THAT(later.error().text, Catch::Contains("version 2") && Catch::Contains("version 1"));
}

TEST_CASE("records of a type that is not known, and a change of nothing, are refused") {
  for (auto type : {journal_record::sets, journal_record::change}) {
    auto file = journal_header();
    append(file, journal_entry(type, {}));
    const auto content = replay(file);
    REQUIRE_FALSE(content);
    CHECK_THAT(content.error().text, Catch::Contains("byte 16"));
  }
}

TEST_CASE("of several blacklists the last counts, and one that promises what cannot be is refused") {
  const std::vector<failed_host> first{{"a", 1, wall_time{std::chrono::seconds{9}}, false}};
  const std::vector<failed_host> second{{"a", 2, {}, true}, {"b", 1, {}, true}};
  auto file = sample().file;
  const auto jobs = file.size();
  CHECK(replay(file)->failed.empty());
  append(file, journal_entry(first));
  CHECK(replay(file)->failed == first);
  append(file, journal_entry(second));
  const auto content = replay(file);
  REQUIRE(content);
  CHECK(content->failed == second);
  CHECK(*content->job == sample().images.back());
  append(file, journal_entry(std::vector<failed_host>{}));
  CHECK(replay(file)->failed.empty());
  auto spoilt = sample().file;
  append(spoilt, journal_entry(std::vector<failed_host>{{"a", 0, {}, true}}));
  const auto refused = replay(spoilt);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().text, Catch::Contains("byte " + std::to_string(jobs)));
}

TEST_CASE("a job whose revision is the same has the same image") {
  std::size_t same = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    history past(seed);
    auto before = past.job().image();
    auto revision = past.job().revision();
    for (int i = 0; i < 150; ++i) {
      if (i == 75) {
        past.restart();
        before = past.job().image();
        revision = past.job().revision();
      }
      past.step();
      const auto now = past.job().image();
      if (past.job().revision() == revision) {
        ++same;
        CHECK(now == before);
      }
      CHECK(past.job().revision() >= revision);
      revision = past.job().revision();
      before = now;
    }
  }
  CHECK(same > 1000);
}

TEST_CASE("an image that promises what cannot be is refused") {
  const auto refused = [](auto spoil) {
    job_image image = sample().images.back();
    spoil(image);
    return !decode_job_image(encode(image));
  };
  CHECK_FALSE(refused([](job_image&) {}));
  CHECK(refused([](job_image& one) { one.least = 0; }));
  CHECK(refused([](job_image& one) { one.most = 1 << 20; }));
  CHECK(refused([](job_image& one) { std::swap(one.seats[0], one.seats[1]); }));
  CHECK(refused([](job_image& one) { one.seats[0].last_rank = -2; }));
}
