#include "elastic/journal_format.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace farandole {

namespace {

constexpr std::array<char, 8> magic{'F', 'A', 'R', 'A', 'N', 'D', 'J', 'L'};
constexpr std::array<char, 4> record_magic{'F', 'J', 'R', 'C'};
constexpr std::size_t checked_bytes = 24; ///< of a record's head, before its checksum
constexpr std::size_t body_at = 32;
constexpr std::size_t head_bytes = 40;

template <class Number>
void put(std::vector<std::byte>& bytes, Number value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
}

template <class Number>
Number get(std::span<const std::byte> bytes, std::size_t at) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i)
    value |= static_cast<Number>(bytes[at + i]) << (8 * i);
  return value;
}

/// The checksum of both ranges of bytes, concatenated.
std::uint64_t checksum(std::span<const std::byte> bytes, std::span<const std::byte> more = {}) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> state(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  [[maybe_unused]] const bool done = EVP_DigestInit_ex(state.get(), EVP_sha256(), nullptr) == 1 &&
                                     EVP_DigestUpdate(state.get(), bytes.data(), bytes.size()) == 1 &&
                                     EVP_DigestUpdate(state.get(), more.data(), more.size()) == 1 &&
                                     EVP_DigestFinal_ex(state.get(), digest.data(), nullptr) == 1;
  assert(done);
  return get<std::uint64_t>(std::as_bytes(std::span(digest)), 0);
}

/// After a crash, parts of the file that never reached the disk may read as zeros.
bool is_blank(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte data) { return data == std::byte{0}; });
}

/// Whether a valid head of a record begins here; the payload is not checked.
bool has_head(std::span<const std::byte> bytes) {
  return bytes.size() >= head_bytes &&
         std::equal(record_magic.begin(), record_magic.end(), bytes.begin(),
                    [](char letter, std::byte data) { return static_cast<std::byte>(letter) == data; }) &&
         get<std::uint64_t>(bytes, checked_bytes) == checksum(bytes.first(checked_bytes));
}

/// Whether another record was written behind the one that begins here.
bool is_followed(std::span<const std::byte> bytes) {
  for (std::size_t at = 1; at + head_bytes <= bytes.size(); ++at)
    if (has_head(bytes.subspan(at)))
      return true;
  return false;
}

/// The record that begins here, or the problem with it.
struct next_record {
  journal_record type{};
  std::span<const std::byte> payload;
  journal_link link;
  std::string wrong = {};
  bool may_be_torn = false; ///< if it is the last record
};

next_record read_record(std::span<const std::byte> bytes, const journal_link& before) {
  const auto torn = [](std::string reason) { return next_record{{}, {}, {}, std::move(reason), true}; };
  const auto bad = [](std::string reason) { return next_record{{}, {}, {}, std::move(reason), false}; };
  if (!has_head(bytes))
    return torn("the head of a record is malformed");
  next_record record;
  record.type = static_cast<journal_record>(get<std::uint32_t>(bytes, 4));
  record.link = {get<std::uint32_t>(bytes, 8), get<std::uint64_t>(bytes, body_at)};
  if (get<std::uint32_t>(bytes, 12) != before.size || get<std::uint64_t>(bytes, 16) != before.body)
    return bad("the record before it is not the one that it was written behind");
  if (record.link.size > journal_record_limit_bytes)
    return bad("a record of " + std::to_string(record.link.size) + " bytes is too long");
  if (bytes.size() - head_bytes < record.link.size)
    return torn("it ends beyond the end of the file");
  record.payload = bytes.subspan(head_bytes, record.link.size);
  if (record.link.body != checksum(bytes.first(body_at), record.payload))
    return torn("the checksum of a record is wrong");
  return record;
}

std::string take_job(const next_record& record, std::optional<job_image>& job) {
  auto value = decode_job_image(record.payload);
  if (!value)
    return value.error().text;
  if (record.type == journal_record::snapshot)
    job = std::move(*value);
  else if (job)
    apply(*value, *job);
  else
    return "a change comes before any snapshot";
  return {};
}

/// Applies a record whose checksums are right. Returns the problem with its content; empty if there is none.
std::string take(const next_record& record, journal_content& content) {
  switch (record.type) {
  case journal_record::snapshot:
  case journal_record::change:
    return take_job(record, content.job);
  case journal_record::blacklist: {
    auto failed = decode_failed_hosts(record.payload);
    if (!failed)
      return failed.error().text;
    content.failed = std::move(*failed);
    return {};
  }
  case journal_record::synced:
    return record.payload.empty() ? "" : "a sync mark has a payload";
  default:
    return "records of type " + std::to_string(static_cast<std::uint32_t>(record.type)) +
           " are not known here";
  }
}

} // namespace

std::vector<std::byte> journal_header() {
  std::vector<std::byte> bytes;
  for (char letter : magic)
    bytes.push_back(static_cast<std::byte>(letter));
  put(bytes, journal_version);
  put(bytes, std::uint32_t{0});
  return bytes;
}

std::vector<std::byte> journal_writer::entry(journal_record type, const job_image& value) {
  return entry(type, encode(value));
}

std::vector<std::byte> journal_writer::entry(const std::vector<failed_host>& failed) {
  return entry(journal_record::blacklist, encode(failed));
}

std::vector<std::byte> journal_writer::synced() {
  return entry(journal_record::synced, std::span<const std::byte>{});
}

std::vector<std::byte> journal_writer::entry(journal_record type, std::span<const std::byte> payload) {
  assert(payload.size() <= journal_record_limit_bytes);
  std::vector<std::byte> made;
  made.reserve(head_bytes + payload.size());
  for (char letter : record_magic)
    made.push_back(static_cast<std::byte>(letter));
  put(made, static_cast<std::uint32_t>(type));
  put(made, static_cast<std::uint32_t>(payload.size()));
  put(made, last_.size);
  put(made, last_.body);
  assert(made.size() == checked_bytes);
  put(made, checksum(made));
  assert(made.size() == body_at);
  last_ = {static_cast<std::uint32_t>(payload.size()), checksum(made, payload)};
  put(made, last_.body);
  made.insert(made.end(), payload.begin(), payload.end());
  return made;
}

expected<journal_content> replay(std::span<const std::byte> file) {
  const auto header = journal_header();
  const auto compared = std::min(file.size(), magic.size());
  if (!std::equal(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(compared), header.begin()) &&
      !is_blank(file))
    return error{error_kind::precondition, "it is no journal: it begins with other bytes (byte 0)"};
  journal_content content;
  if (file.size() < journal_header_bytes || is_blank(file))
    return content;
  if (const auto version = get<std::uint32_t>(file, 8); version != journal_version)
    return error{error_kind::precondition,
                 "it has version " + std::to_string(version) +
                     " (byte 8), and this Farandole reads version " + std::to_string(journal_version) +
                     ": end the job with the Farandole that began it, or give this one a new journal"};
  if (get<std::uint32_t>(file, 12) != 0)
    return error{error_kind::precondition, "the header ends in other bytes than zeros (byte 12)"};
  content.sound_bytes = journal_header_bytes;
  for (std::size_t number = 1; content.sound_bytes < file.size(); ++number) {
    const auto rest = file.subspan(content.sound_bytes);
    auto record = read_record(rest, content.last);
    if (record.wrong.empty())
      record.wrong = take(record, content);
    if (!record.wrong.empty()) {
      if (!record.may_be_torn || is_followed(rest))
        content.damage = {content.sound_bytes, number, std::move(record.wrong)};
      break;
    }
    content.last = record.link;
    content.sound_bytes += head_bytes + record.payload.size();
  }
  return content;
}

} // namespace farandole
