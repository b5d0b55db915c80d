#include "elastic/journal_format.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <string>

namespace farandole {

namespace {

constexpr std::array<char, 8> magic{'F', 'A', 'R', 'A', 'N', 'D', 'J', 'L'};
constexpr std::size_t head_bytes = 24;

template <class Number>
void put(std::vector<std::byte>& out, Number value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

template <class Number>
Number get(std::span<const std::byte> bytes, std::size_t at) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i)
    value |= static_cast<Number>(bytes[at + i]) << (8 * i);
  return value;
}

std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  [[maybe_unused]] const int done =
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  assert(done == 1);
  return get<std::uint64_t>(std::as_bytes(std::span(digest)), 0);
}

error damaged(std::size_t offset, const std::string& what) {
  return {error_kind::precondition, "it is damaged at byte " + std::to_string(offset) + ": " + what};
}

/// Where a file was cut short, what never reached the disk reads as zeros.
bool is_blank(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte one) { return one == std::byte{0}; });
}

/// A record, or that the file ends here: torn, or just so.
struct next_record {
  std::uint32_t type = 0;
  std::span<const std::byte> payload;
  bool ends = false;
};

expected<next_record> read_record(std::span<const std::byte> file, std::size_t at) {
  const auto rest = file.subspan(at);
  next_record ending;
  ending.ends = true;
  if (rest.size() < head_bytes || is_blank(rest))
    return ending;
  if (get<std::uint64_t>(rest, 8) != checksum(rest.first(8))) {
    if (is_blank(rest.subspan(head_bytes)))
      return ending; // nothing is behind it: it may have been cut in its head
    return damaged(at, "what should be the head of a record is none");
  }
  next_record one;
  one.type = get<std::uint32_t>(rest, 0);
  const std::size_t size = get<std::uint32_t>(rest, 4);
  if (size > journal_record_limit_bytes)
    return damaged(at, "a record of " + std::to_string(size) + " bytes is too long");
  if (rest.size() - head_bytes < size)
    return ending;
  one.payload = rest.subspan(head_bytes, size);
  if (get<std::uint64_t>(rest, 16) == checksum(one.payload))
    return one;
  // The last one may have been cut while it was written; behind any other one more was written later.
  if (rest.size() == head_bytes + size || is_blank(rest.subspan(head_bytes + size)))
    return ending;
  return damaged(at, "the checksum of a record is wrong");
}

error take_job(const next_record& record, std::size_t at, std::optional<job_image>& job) {
  auto value = decode_job_image(record.payload);
  if (!value)
    return damaged(at, value.error().text);
  if (static_cast<journal_record>(record.type) == journal_record::snapshot)
    job = std::move(*value);
  else if (job)
    apply(*value, *job);
  else
    return damaged(at, "a change comes before any snapshot");
  return {};
}

error take(const next_record& record, std::size_t at, journal_content& content) {
  switch (static_cast<journal_record>(record.type)) {
  case journal_record::snapshot:
  case journal_record::change:
    return take_job(record, at, content.job);
  case journal_record::blacklist: {
    auto failed = decode_failed_hosts(record.payload);
    if (!failed)
      return damaged(at, failed.error().text);
    content.failed = std::move(*failed);
    return {};
  }
  default:
    return damaged(at, "records of type " + std::to_string(record.type) + " are not known here");
  }
}

std::vector<std::byte> entry_of(journal_record type, std::span<const std::byte> payload) {
  assert(payload.size() <= journal_record_limit_bytes);
  std::vector<std::byte> out;
  out.reserve(head_bytes + payload.size());
  put(out, static_cast<std::uint32_t>(type));
  put(out, static_cast<std::uint32_t>(payload.size()));
  put(out, checksum(std::span(out).first(8)));
  put(out, checksum(payload));
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

} // namespace

std::vector<std::byte> journal_header() {
  std::vector<std::byte> out;
  for (char letter : magic)
    out.push_back(static_cast<std::byte>(letter));
  put(out, journal_version);
  put(out, std::uint32_t{0});
  return out;
}

std::vector<std::byte> journal_entry(journal_record type, const job_image& value) {
  return entry_of(type, encode(value));
}

std::vector<std::byte> journal_entry(const std::vector<failed_host>& failed) {
  return entry_of(journal_record::blacklist, encode(failed));
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
    return error{error_kind::precondition, "it has version " + std::to_string(version) +
                                               " (byte 8), and this Farandole reads version " +
                                               std::to_string(journal_version)};
  if (get<std::uint32_t>(file, 12) != 0)
    return damaged(12, "the header ends in other bytes than zeros");
  content.sound_bytes = journal_header_bytes;
  while (content.sound_bytes < file.size()) {
    const auto record = read_record(file, content.sound_bytes);
    if (!record)
      return record.error();
    if (record->ends)
      break;
    if (auto problem = take(*record, content.sound_bytes, content))
      return problem;
    content.sound_bytes += head_bytes + record->payload.size();
  }
  return content;
}

} // namespace farandole
