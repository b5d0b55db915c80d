// Which hosts still have to send their event records, and which records are missing in the end.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace farandole {

class record_gathering {
public:
  /// These hosts were asked for their records.
  void expect(const std::vector<std::string>& hosts);
  bool awaits(const std::string& host) const { return waiting_.contains(host); }
  /// Whether all hosts that were asked have answered, or cannot answer any more.
  bool is_complete() const { return asked_ && waiting_.empty(); }

  /// A part has arrived from this host and is being written. Returns false if the host must not have sent it: it sends a
  /// part only when the one before is written.
  bool begin_part(const std::string& host);
  void end_part(const std::string& host) { writing_.erase(host); }
  /// The host has sent everything. `problem`: the missing records with the reason, or empty.
  void complete(const std::string& host, const std::string& problem);
  /// The host cannot send its records, for this reason.
  void lose(const std::string& host, const std::string& reason);
  /// Problems of this host.
  void note(const std::vector<std::string>& problems) {
    notices_.insert(notices_.end(), problems.begin(), problems.end());
  }
  /// The time is over: the other hosts are lost.
  void give_up(const std::string& reason);

  /// Which records are missing, for users.
  const std::vector<std::string>& notices() const { return notices_; }

private:
  bool asked_ = false;
  std::set<std::string> waiting_; ///< hosts that have not sent everything
  std::set<std::string> writing_; ///< hosts with a part that is not written yet
  std::vector<std::string> notices_;
};

} // namespace farandole
