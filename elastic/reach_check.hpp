// The hosts of a job test, before its workers start, which addresses of each host the others reach: each host listens at
// all its candidate addresses, and the others dial them. Pure decisions: the launcher feeds in the reports of the hosts and
// sends the returned requests (actors/launch/reach_checker.hpp). choose_networks() takes the results.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "elastic/network_choice.hpp"
#include "messages/wire/reachability.hpp"

namespace farandole {

class reach_check {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// Up to this number of hosts, each pair is tested in both directions. Among more, each host dials only the next one
  /// in a ring, because the pairs of 512 hosts would be 261,632 connections. A ring still finds the addresses that no
  /// other host reaches, and two groups of hosts that do not reach each other.
  static constexpr std::size_t most_for_all_pairs = 8;
  /// More addresses of a host are not tested.
  static constexpr std::size_t most_candidates = most_tested_addresses / most_for_all_pairs;
  /// Once each host has an address that the others have reached, the addresses that would be preferred to it have this
  /// time to answer. A firewall may drop packets to them, which would delay the job until the timeout.
  static constexpr std::chrono::milliseconds head_start{250};

  /// Different hosts have no address in common.
  struct tested_host {
    std::string host;
    std::vector<std::string> candidates; ///< in order of preference; at most most_candidates
  };
  /// Requests to hosts, and whether the check is complete: the last requests end it.
  struct step {
    std::vector<std::pair<std::string, address_test>> requests;
    bool complete = false;
    std::optional<time_point> call_next; ///< call due() then
  };

  /// `timeout`: from the dial of an address to the proof of the secret.
  reach_check(const std::vector<tested_host>& hosts, std::chrono::milliseconds timeout);

  step begin(time_point current_time);
  step reported(const std::string& host, const address_report& report, time_point current_time);
  step due(time_point current_time);
  /// The results by host. After a timeout some are missing.
  std::map<std::string, std::vector<connection_attempt>> attempts() const;

private:
  struct entry {
    tested_host tested;
    std::vector<tested_address> listening; ///< those that have a port
    std::size_t reported = 0;              ///< number of candidates that listen or cannot
    std::vector<connection_attempt> attempts;
    std::size_t dialling = 0; ///< number of hosts that dial its addresses
  };
  enum class state : std::uint8_t { waiting, usable, decided };

  /// The positions of the hosts that this one dials.
  std::vector<std::size_t> targets_of(std::size_t position) const;
  state state_of(const entry& host) const;
  step dial() const;
  step complete_if_decided(time_point current_time);
  step complete();

  std::vector<entry> hosts_;
  std::chrono::milliseconds timeout_;
  time_point deadline_{};
  bool dials_ = false;
  bool is_complete_ = false;
};

} // namespace farandole
