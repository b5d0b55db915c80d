#include "collectives/transport/path_setup.hpp"

#include <algorithm>
#include <numeric>

namespace farandole {

std::vector<std::int32_t> set_view::neighbours() const {
  std::vector<std::int32_t> peers;
  auto& host = members[static_cast<std::size_t>(rank)].host;
  for (std::size_t other = 0; other < members.size(); ++other)
    if (members[other].host == host)
      peers.push_back(static_cast<std::int32_t>(other));
  return peers;
}

hierarchy set_view::hierarchy() const {
  std::vector<std::string> identities;
  for (auto& member : members)
    identities.push_back(member.host);
  return farandole::hierarchy::of(identities, rank);
}

set_facts set_view::facts() const {
  const auto hosts = hierarchy().hosts;
  const auto as_many = [&](const auto& host) { return host.size() == hosts.front().size(); };
  return {members.size(), hosts.size(), std::all_of(hosts.begin(), hosts.end(), as_many), set == 0};
}

std::vector<std::int32_t> path_setup::all_ranks() const {
  std::vector<std::int32_t> all(set.members.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<std::int32_t> path_setup::global_ranks(std::span<const std::int32_t> ranks) const {
  std::vector<std::int32_t> global;
  for (auto rank : ranks)
    global.push_back(set.members[static_cast<std::size_t>(rank)].rank);
  return global;
}

std::string path_setup::ip() const {
  auto& own = set.members[static_cast<std::size_t>(set.rank)].address;
  return set.one_host() ? std::string() : own.substr(0, own.rfind(':'));
}

// Counts the members of the job on this host, not only those of the set: the others need cores as well.
futex_wait path_setup::wait_policy() const {
  auto& own = set.members[static_cast<std::size_t>(set.rank)];
  return futex_wait::decide(std::max(static_cast<std::uint32_t>(levels.neighbours().size()),
                                     static_cast<std::uint32_t>(std::max(own.local_size, 1))));
}

} // namespace farandole
