#include "messages/wire/failed_host.hpp"

#include <capnp/message.h>

#include <cassert>

#include "messages/wire/failed_host_form.hpp"

namespace farandole {

namespace {

/// The years 1970 to 9999: arithmetic with times in this range cannot overflow.
constexpr wall_time earliest{}, latest{std::chrono::milliseconds{253'402'300'799'999}};

} // namespace

namespace wire_form {

void write(capnp::List<wire::FailedHost>::Builder to, const std::vector<failed_host>& hosts) {
  assert(hosts.size() <= failed_host_limit);
  write_each(to, hosts, [](auto host, const failed_host& entry) {
    host.setName(text_of(entry.name));
    host.setTimes(entry.times);
    host.setUntil(entry.deadline.time_since_epoch().count());
    host.setForGood(entry.for_good);
  });
}

std::vector<failed_host> read(capnp::List<wire::FailedHost>::Reader from, validation& so_far) {
  std::vector<failed_host> hosts;
  if (!so_far.require(from.size() <= failed_host_limit, "there are too many hosts"))
    return hosts;
  hosts.reserve(from.size());
  for (auto entry : from) {
    failed_host host;
    host.name = read_label(entry.getName(), so_far);
    host.times = entry.getTimes();
    host.deadline = wall_time{std::chrono::milliseconds{entry.getUntil()}};
    host.for_good = entry.getForGood();
    so_far.require(host.times >= 1, "a host failed less than once");
    so_far.require(earliest <= host.deadline && host.deadline <= latest, "a time is out of range");
    so_far.require(hosts.empty() || hosts.back().name < host.name, "hosts are not in order of names");
    if (!so_far.good())
      return hosts;
    hosts.push_back(std::move(host));
  }
  return hosts;
}

} // namespace wire_form

std::vector<std::byte> encode(const std::vector<failed_host>& hosts) {
  return wire_form::bytes_of<wire::Blacklist>(
      [&](auto to) { wire_form::write(to.initHosts(wire_form::count_of(hosts)), hosts); });
}

expected<std::vector<failed_host>> decode_failed_hosts(std::span<const std::byte> bytes) {
  return wire_form::decode_bytes<std::vector<failed_host>, wire::Blacklist>(
      bytes, "blacklist",
      [](auto from, auto& hosts, auto& so_far) { hosts = wire_form::read(from.getHosts(), so_far); });
}

} // namespace farandole
