#include "actors/launch/record_gathering.hpp"

namespace farandole {

void record_gathering::expect(const std::vector<std::string>& hosts) {
  asked_ = true;
  waiting_ = {hosts.begin(), hosts.end()};
}

bool record_gathering::begin_part(const std::string& host) {
  return awaits(host) && writing_.insert(host).second;
}

void record_gathering::complete(const std::string& host, const std::string& problem) {
  if (waiting_.erase(host) != 0 && !problem.empty())
    notices_.push_back("host " + host + ": " + problem);
}

void record_gathering::lose(const std::string& host, const std::string& reason) {
  if (waiting_.erase(host) != 0)
    notices_.push_back("the records of host " + host + " are missing: " + reason);
}

void record_gathering::give_up(const std::string& reason) {
  for (const auto& host : std::set<std::string>(waiting_))
    lose(host, reason);
  asked_ = true;
}

} // namespace farandole
