#include "elastic/journal_format.hpp"

#include <catch2/catch.hpp>

#include <random>

#include "elastic/membership.hpp"

using namespace farandole;

namespace {

using bytes = std::vector<std::byte>;

constexpr std::size_t head_bytes = 40; // bytes of a record's head

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

/// A job that goes through random events of a rendezvous.
class history {
public:
  explicit history(unsigned seed) : chance_(seed), job_({3, true, 1, 5}, 7) {}

  void step() {
    const auto slot = static_cast<std::int32_t>(draw(8));
    const auto link_id = route_of(slot);
    switch (draw(7)) {
    case 0:
      return job_.expect(slot);
    case 1:
      return ignore(job_.join(++routes_[slot], from_slot(slot, 3)));
    case 2:
      return ignore(job_.leave(link_id, job_.generation()));
    case 3:
      return ignore(job_.disconnect(link_id, "closed its connection"));
    case 4:
      return draw(4) == 0 ? ignore(job_.exit(slot, "exited with code 3")) : void();
    case 5:
      return draw(4) == 0 ? ignore(job_.retire(slot)) : void();
    default:
      return ignore(job_.report(link_id, {job_.generation(), slot % 3, "closed its connection"}));
    }
  }
  void restart() { job_ = membership::restored(job_.image(), job_.epoch() + 1); }
  const membership& job() const { return job_; }
  std::size_t draw(std::size_t below) { return chance_() % below; }

private:
  static void ignore(const membership_decision&) {}
  link_id route_of(std::int32_t slot) {
    return routes_.try_emplace(slot, static_cast<link_id>(1000 * (slot + 1))).first->second;
  }

  std::mt19937 chance_;
  membership job_;
  std::map<std::int32_t, link_id> routes_;
};

void append(bytes& file, const bytes& more) {
  file.insert(file.end(), more.begin(), more.end());
}

/// A snapshot and two changes, each followed by a synced mark; `offsets` has the start of each record and,
/// last, the end of the file.
struct sample {
  bytes file = journal_header();
  journal_writer writer;
  std::vector<std::size_t> offsets;
  std::vector<job_image> images; ///< the image after each record

  sample() {
    history past(1);
    job_image before;
    for (int number = 0; number < 3; ++number) {
      for (int i = 0; i < 20; ++i)
        past.step();
      const auto current = past.job().image();
      add(number == 0 ? writer.entry(journal_record::snapshot, current)
                      : writer.entry(journal_record::change, difference(before, current)),
          current);
      add(writer.synced(), current);
      before = current;
    }
    offsets.push_back(file.size());
  }
  std::size_t count() const { return images.size(); }
  /// The number, from 0, of the record that holds this byte.
  std::size_t record_at(std::size_t byte) const {
    std::size_t number = 0;
    while (offsets[number + 1] <= byte)
      ++number;
    return number;
  }

private:
  void add(const bytes& entry, const job_image& current) {
    offsets.push_back(file.size());
    append(file, entry);
    images.push_back(current);
  }
};

} // namespace

TEST_CASE("a journal gives back the job that was written, after any events") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    history past(seed);
    auto before = past.job().image();
    auto file = journal_header();
    journal_writer writer;
    append(file, writer.entry(journal_record::snapshot, before));
    for (int i = 0; i < 150; ++i) {
      past.step();
      const auto current = past.job().image();
      append(file, past.draw(20) == 0 ? writer.entry(journal_record::snapshot, current)
                                      : writer.entry(journal_record::change, difference(before, current)));
      before = current;
    }
    const auto content = replay(file);
    REQUIRE(content);
    CHECK(content->sound_bytes == file.size());
    REQUIRE(content->job);
    CHECK(*content->job == before);
    CHECK(membership::restored(*content->job, before.epoch).image() == before);
  }
}

TEST_CASE("a journal that is cut anywhere gives back its whole records") {
  const sample made;
  for (std::size_t size = 0; size <= made.file.size(); ++size) {
    INFO("cut to " << size << " bytes");
    const auto content = replay(std::span(made.file).first(size));
    REQUIRE(content);
    CHECK_FALSE(content->damage);
    std::size_t whole = 0;
    while (whole < made.count() && made.offsets[whole + 1] <= size)
      ++whole;
    CHECK(content->sound_bytes == (size < journal_header_bytes ? 0 : made.offsets[whole]));
    CHECK(content->job.has_value() == (whole > 0));
    if (whole > 0)
      CHECK(*content->job == made.images[whole - 1]);
  }
}

TEST_CASE("blocks that never reached the disk count as a torn end") {
  const sample made;
  std::vector<std::size_t> all{0};
  for (std::size_t record = 1; record < made.count(); ++record)
    for (auto kept = made.offsets[record]; kept <= made.offsets[record] + head_bytes + 8; ++kept)
      all.push_back(kept);
  for (const auto kept : all) {
    INFO("kept " << kept << " bytes");
    auto file = made.file;
    if (kept >= file.size())
      continue;
    std::fill(file.begin() + static_cast<std::ptrdiff_t>(kept), file.end(), std::byte{0});
    const auto content = replay(file);
    REQUIRE(content);
    CHECK_FALSE(content->damage);
    CHECK(content->sound_bytes <= kept);
  }
}

TEST_CASE("a last record whose first block never reached the disk is dropped") {
  const sample made;
  auto file = made.file;
  const auto last = made.offsets[made.count() - 2]; // no synced mark follows it yet
  file.resize(made.offsets[made.count() - 1]);
  std::fill_n(file.begin() + static_cast<std::ptrdiff_t>(last), 20, std::byte{0});
  const auto content = replay(file);
  REQUIRE(content);
  CHECK_FALSE(content->damage);
  CHECK(content->sound_bytes == last);
}

TEST_CASE("a wrong byte is reported with its record's offset and number, unless it is in the last mark") {
  const sample made;
  for (std::size_t at = 0; at < made.file.size(); ++at)
    for (const auto flip : {std::byte{0x01}, std::byte{0x10}, std::byte{0xff}}) {
      INFO("byte " << at);
      auto file = made.file;
      file[at] ^= flip;
      const auto content = replay(file);
      if (at < journal_header_bytes) {
        CHECK_FALSE(content);
        continue;
      }
      REQUIRE(content);
      const auto record = made.record_at(at);
      CHECK(content->sound_bytes == made.offsets[record]);
      CHECK(content->job == (record == 0 ? std::nullopt : std::optional(made.images[record - 1])));
      if (record + 1 == made.count()) {
        CHECK_FALSE(content->damage); // the record that the mark confirms is there
        continue;
      }
      REQUIRE(content->damage);
      CHECK(content->damage->offset == made.offsets[record]);
      CHECK(content->damage->record == record + 1);
      CHECK_FALSE(content->damage->reason.empty());
    }
}

TEST_CASE("a record that is missing, comes twice, or comes from another file is damage") {
  const sample made;
  const auto part = [&](std::size_t from, std::size_t to) {
    return bytes(made.file.begin() + static_cast<std::ptrdiff_t>(from),
                 made.file.begin() + static_cast<std::ptrdiff_t>(to));
  };
  const auto header_and = [&](std::initializer_list<bytes> rest) {
    auto file = part(0, journal_header_bytes);
    for (const auto& buffer : rest)
      append(file, buffer);
    return file;
  };
  const auto snapshot = part(made.offsets[0], made.offsets[2]);
  const auto first = part(made.offsets[2], made.offsets[4]);
  const auto second = part(made.offsets[4], made.offsets[6]);
  auto other = sample().images.front();
  other.generation += 1;
  for (const auto& file :
       {header_and({snapshot, second}), header_and({snapshot, first, first}), header_and({first}),
        header_and({snapshot, journal_writer().entry(journal_record::snapshot, other)})}) {
    const auto content = replay(file);
    REQUIRE(content);
    REQUIRE(content->damage);
    CHECK_THAT(content->damage->reason, Catch::Contains("the record before it"));
  }
  CHECK_FALSE(replay(header_and({snapshot, first, second}))->damage);
}

TEST_CASE("a file that is no journal, or has another version, is refused") {
  const std::string text = "#!/bin/sh\n";
  const auto other = replay(std::as_bytes(std::span(text)));
  REQUIRE_FALSE(other);
  CHECK_THAT(other.error().text, Catch::Contains("no journal"));
  auto file = journal_header();
  file[8] = std::byte{1};
  const auto earlier = replay(file);
  REQUIRE_FALSE(earlier);
  CHECK_THAT(earlier.error().text, Catch::Contains("version 1 (byte 8)") &&
                                       Catch::Contains("reads version 2") &&
                                       Catch::Contains("give this one a new journal"));
}

TEST_CASE("records of an unknown type, and a change without a snapshot, are damage") {
  for (auto type : {journal_record::sets, journal_record::change, journal_record::synced}) {
    auto file = journal_header();
    append(file, journal_writer().entry(type, job_image{}));
    const auto content = replay(file);
    REQUIRE(content);
    REQUIRE(content->damage);
    CHECK(content->damage->offset == 16);
  }
}

TEST_CASE("the last of several blacklists counts, and an invalid one is damage") {
  const std::vector<failed_host> first{{"a", 1, wall_time{std::chrono::seconds{9}}, false}};
  const std::vector<failed_host> second{{"a", 2, {}, true}, {"b", 1, {}, true}};
  sample made;
  auto file = made.file;
  const auto jobs = file.size();
  auto writer = made.writer;
  CHECK(replay(file)->failed.empty());
  append(file, writer.entry(first));
  CHECK(replay(file)->failed == first);
  append(file, writer.entry(second));
  const auto content = replay(file);
  REQUIRE(content);
  CHECK(content->failed == second);
  CHECK(*content->job == made.images.back());
  append(file, writer.entry(std::vector<failed_host>{}));
  CHECK(replay(file)->failed.empty());
  auto spoilt = made.file;
  append(spoilt, made.writer.entry(std::vector<failed_host>{{"a", 0, {}, true}}));
  const auto found = replay(spoilt);
  REQUIRE(found);
  REQUIRE(found->damage);
  CHECK(found->damage->offset == jobs);
}

TEST_CASE("two images of a job with the same revision are equal") {
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
      const auto current = past.job().image();
      if (past.job().revision() == revision) {
        ++same;
        CHECK(current == before);
      }
      CHECK(past.job().revision() >= revision);
      revision = past.job().revision();
      before = current;
    }
  }
  CHECK(same > 1000);
}

TEST_CASE("an invalid image is refused") {
  const auto refused = [](auto spoil) {
    job_image image = sample().images.back();
    spoil(image);
    return !decode_job_image(encode(image));
  };
  CHECK_FALSE(refused([](job_image&) {}));
  CHECK(refused([](job_image& entry) { entry.minimum = 0; }));
  CHECK(refused([](job_image& entry) { entry.limit = 1 << 20; }));
  CHECK(refused([](job_image& entry) { std::swap(entry.slot_images[0], entry.slot_images[1]); }));
  CHECK(refused([](job_image& entry) { entry.slot_images[0].last_rank = -2; }));
}
