#include "actors/pmi/job_meeting.hpp"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "actors/pmi/host_entry.hpp"
#include "actors/pmi/job_entry.hpp"
#include "actors/rendezvous/reachable_address.hpp"
#include "actors/rendezvous/this_host.hpp"
#include "elastic/network_choice.hpp"

namespace farandole {
namespace {

/// A digest of the host's identity, which has any length and any characters. Equal digests: the same host.
std::string host_digest(const settings& values) {
  const auto identity = host_identity(values);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  ::SHA256(reinterpret_cast<const unsigned char*>(identity.data()), identity.size(), digest.data());
  std::string text;
  for (const auto byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

/// The addresses at which rank 0 serves the rendezvous: that of the interface setting, otherwise all that may lead to it.
expected<std::vector<std::string>> addresses_to_serve(const std::vector<host_networks>& hosts,
                                                      const settings& values) {
  if (hosts.size() == 1)
    return std::vector<std::string>{"127.0.0.1"};
  if (!values.text(setting::interface).empty()) {
    const auto ip = address_of_wanted_interface(values);
    return ip ? expected<std::vector<std::string>>({*ip}) : ip.error();
  }
  auto chosen = choose_networks(hosts, {});
  // Containers that share the network of their machine are different hosts with the same addresses.
  if (chosen.at(hosts.front().host).addresses.empty())
    chosen = choose_networks(std::span(&hosts.front(), 1), {});
  use_family(chosen, common_family(chosen));
  const auto own = chosen.extract(hosts.front().host);
  std::vector<std::string> ips;
  constexpr std::size_t most_addresses = 16; // as the entry has room for
  for (const auto& address : own.mapped().addresses)
    if (ips.size() < most_addresses)
      ips.push_back(address.address);
  if (ips.empty())
    return missing_networks({{own.key(), own.mapped()}}, {});
  return ips;
}

/// All ranks have been given the secret, or none.
error check_secret_of_rank_0(const job_entry& entry, const std::string& secret) {
  if (entry.new_secret.empty() == !secret.empty())
    return {};
  if (secret.empty())
    return {error_kind::precondition,
            "rank 0 was given a secret, and this process was not: set FARANDOLE_SECRET_FILE "
            "for all processes (mpirun -x, -genv), or for none"};
  return {error_kind::precondition,
          "this process was given a secret, and rank 0 was not: set FARANDOLE_SECRET_FILE "
          "for all processes (mpirun -x, -genv), or for none"};
}

/// The steps of a meeting.
class job_meeting {
public:
  job_meeting(key_value_space& space, std::int32_t number, const settings& values, const std::string& secret,
              key_value_space::time_point deadline)
      : space_(space), suffix_(std::to_string(number)), values_(values), secret_(secret),
        deadline_(deadline) {}

  expected<meeting_place> hold();

private:
  error put_and_meet(const std::string& name, const std::string& value);
  expected<std::string> get(std::int32_t rank, const std::string& name) {
    return space_.get(rank, name + suffix_, deadline_);
  }
  expected<std::vector<host_networks>> hosts();
  expected<job_entry> serve();
  expected<job_entry> publish();
  expected<job_entry> read();
  expected<std::string> reachable_address(const job_entry& entry, const std::string& secret) const;
  expected<std::string> agree_on_address(const job_entry& entry, const std::string& secret);

  key_value_space& space_;
  std::string suffix_; ///< of the keys of this meeting
  const settings& values_;
  const std::string& secret_; ///< that this process was given
  key_value_space::time_point deadline_;
  std::unique_ptr<served_rendezvous> rendezvous_;
};

constexpr const char* host_key = "host";
constexpr const char* job_key = "job";
constexpr const char* reached_key = "reached";

expected<meeting_place> job_meeting::hold() {
  auto addresses = addresses_for_others();
  const pmi_entry own{host_digest(values_), addresses ? std::move(*addresses) : std::vector<host_address>{}};
  if (auto problem = put_and_meet(host_key, encode_host_entry(own)))
    return problem;
  const auto entry = space_.rank() == 0 ? publish() : read();
  if (!entry)
    return entry.error();
  meeting_place place;
  if (space_.rank() != 0)
    place.refusal = check_secret_of_rank_0(*entry, secret_);
  place.has_new_secret = !entry->new_secret.empty();
  place.secret = place.has_new_secret ? entry->new_secret : secret_;
  place.port = entry->port;
  place.rendezvous = std::move(rendezvous_);
  auto ip = agree_on_address(*entry, place.refusal ? std::string() : place.secret);
  if (ip)
    place.ip = std::move(*ip);
  else if (!place.refusal)
    return ip.error();
  return place;
}

error job_meeting::put_and_meet(const std::string& name, const std::string& value) {
  if (auto problem = space_.put(name + suffix_, value, deadline_))
    return problem;
  return space_.fence(deadline_);
}

/// The hosts of all processes, that of rank 0 first, each with the lowest rank on it.
expected<std::vector<host_networks>> job_meeting::hosts() {
  std::vector<host_networks> found;
  for (std::int32_t rank = 0; rank < space_.size(); ++rank) {
    const auto text = get(rank, host_key);
    if (!text)
      return text.error();
    auto entry = parse_host_entry(*text, rank);
    if (!entry)
      return entry.error();
    if (std::ranges::find(found, entry->digest, &host_networks::machine) == found.end())
      found.push_back({"the host of rank " + std::to_string(rank),
                       std::move(entry->addresses),
                       std::move(entry->digest),
                       {}});
  }
  return found;
}

expected<job_entry> job_meeting::serve() {
  const auto all_hosts = hosts();
  if (!all_hosts)
    return all_hosts.error();
  const auto ips = addresses_to_serve(*all_hosts, values_);
  if (!ips)
    return ips.error();
  auto service = served_rendezvous::start(values_, space_.size(), *ips, secret_);
  if (!service)
    return service.error();
  rendezvous_ = std::move(*service);
  return job_entry{*ips, rendezvous_->port(), secret_.empty() ? rendezvous_->secret() : std::string()};
}

/// The second step of rank 0.
expected<job_entry> job_meeting::publish() {
  const auto entry = serve();
  // The other ranks wait for an entry, even if there is nothing to tell.
  const auto problem = put_and_meet(job_key, encode_job_entry(entry ? *entry : job_entry{}));
  return entry && problem ? problem : entry;
}

/// The second step of the others.
expected<job_entry> job_meeting::read() {
  if (auto problem = space_.fence(deadline_))
    return problem;
  const auto text = get(0, job_key);
  if (!text)
    return text.error();
  auto entry = parse_job_entry(*text);
  if (entry && entry->ips.empty())
    return error{error_kind::precondition, "rank 0 could not start the rendezvous: see the error of rank 0"};
  return entry;
}

expected<std::string> job_meeting::reachable_address(const job_entry& entry,
                                                     const std::string& secret) const {
  auto links = link_settings::of(values_);
  links.credentials = std::make_shared<const tls_credentials>(secret);
  links.connect_timeout =
      std::max<std::chrono::nanoseconds>(deadline_ - std::chrono::steady_clock::now(), {});
  links.connect_timeout_setting = values_.cited(setting::start_timeout);
  return find_reachable_address(entry.ips, entry.port, links);
}

/// The address at which this rank reaches the rendezvous. Rank 0 takes that which most others reach, because its links to
/// them go through the network of that address. Without a secret this rank has failed, and only lets the others continue.
expected<std::string> job_meeting::agree_on_address(const job_entry& entry, const std::string& secret) {
  expected<std::string> own(entry.ips.front());
  if (entry.ips.size() == 1)
    return own;
  if (space_.rank() != 0 && !secret.empty())
    own = reachable_address(entry, secret);
  constexpr const char* none = "-"; // the value of a key must not be empty
  if (auto problem = put_and_meet(reached_key, own ? *own : none))
    return problem;
  if (space_.rank() != 0)
    return own;
  std::map<std::string, std::size_t> reached;
  for (std::int32_t rank = 1; rank < space_.size(); ++rank) {
    const auto ip = get(rank, reached_key);
    if (!ip)
      return ip.error();
    if (std::ranges::find(entry.ips, *ip) != entry.ips.end())
      ++reached[*ip];
  }
  const auto commonest =
      std::ranges::max_element(reached, {}, [](const auto& entry) { return entry.second; });
  return commonest == reached.end() ? own : commonest->first;
}

} // namespace

void meeting_place::assign_to(settings& values) const {
  values.assign(setting::rendezvous_address, ip, setting_source::rendezvous);
  values.assign(setting::rendezvous_port, std::to_string(port), setting_source::rendezvous);
}

expected<meeting_place> hold_meeting(key_value_space& space, std::int32_t number, const settings& values,
                                     const std::string& secret, key_value_space::time_point deadline) {
  return job_meeting(space, number, values, secret, deadline).hold();
}

} // namespace farandole
