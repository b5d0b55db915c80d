#include "actors/pmi/job_entry.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "messages/values/printable.hpp"

namespace farandole {
namespace {

constexpr std::string_view version = "farandole-2";
constexpr char separator = ';';
constexpr char address_separator = ',';
constexpr std::string_view none = "-"; ///< a field may not be empty
constexpr std::size_t secret_digits = 64;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> fields;
  for (;;) {
    const auto end = text.find(separator);
    fields.push_back(text.substr(0, end));
    if (end == std::string_view::npos)
      return fields;
    text.remove_prefix(end + 1);
  }
}

bool is_address(const std::string& text) {
  if (text.find('\0') != std::string::npos)
    return false;
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, text.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1;
}

bool is_secret(std::string_view text) {
  return text.size() == secret_digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::uint16_t port_in(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), port);
  return problem == std::errc() && end == text.data() + text.size() ? port : std::uint16_t{0};
}

} // namespace

std::string encode_job_entry(const job_entry& entry) {
  std::string text(version);
  std::string ips;
  for (const auto& ip : entry.ips)
    ips += (ips.empty() ? "" : std::string(1, address_separator)) + ip;
  for (const auto& field : {ips, std::to_string(entry.port), entry.new_secret})
    text += separator + (field.empty() ? std::string(none) : field);
  return text;
}

expected<job_entry> parse_job_entry(std::string_view text) {
  const auto malformed = [&](const std::string& reason) {
    constexpr std::size_t quoted_bytes = 24; // a secret comes after the address, and is not repeated
    return error{error_kind::unknown, "rank 0 published '" + printable_name(text.substr(0, quoted_bytes)) +
                                          "…' as the address of the rendezvous, " + reason};
  };
  const auto fields = split(text, separator);
  if (fields.front() != version)
    return malformed("which another version of Farandole uses: install the same version on all hosts");
  if (fields.size() != 4)
    return malformed("which is incomplete");
  if (fields[1] == none)
    return job_entry{};
  job_entry entry{{}, port_in(fields[2]), {}};
  for (const auto ip : split(fields[1], address_separator))
    entry.ips.emplace_back(ip);
  if (!std::ranges::all_of(entry.ips, is_address))
    return malformed("which is no numeric address");
  if (entry.port == 0)
    return malformed("whose port is not valid");
  if (fields[3] == none)
    return entry;
  if (!is_secret(fields[3]))
    return malformed("whose secret is not valid");
  entry.new_secret = fields[3];
  return entry;
}

} // namespace farandole
