// Simulated hosts: network namespaces that are joined by a bridge in one more namespace, the middle, in which
// the launcher and the rendezvous run. The link of a host can be taken down. The namespaces have no names, so
// the kernel removes them when this object and the processes in them have ended for any reason. Making them
// needs root and the command ip.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole::chaos {

class host_network {
public:
  /// Name of the interface to the other namespaces, in every host and in the middle.
  static constexpr const char* interface = "net0";

  /// The process must have no other threads. The error names the missing command or permission.
  static expected<std::unique_ptr<host_network>> make(std::int32_t hosts);

  /// Descriptors of network namespaces, which this object owns.
  int middle() const { return middle_.get(); }
  int host(std::int32_t number) const { return hosts_.at(static_cast<std::size_t>(number)).get(); }
  /// The IP address of the middle.
  std::string address() const { return "10.219.7.1"; }
  /// The IP address of a host.
  static std::string address_of(std::int32_t number) { return "10.219.7." + std::to_string(number + 2); }
  /// The path of a host's namespace; valid while this object exists.
  std::string path(std::int32_t number) const;
  /// A shell prefix that runs a command on the host whose namespace has this path.
  static std::string entrance(const std::string& path);
  /// Takes the host's link down or brings it up. Blocks for some milliseconds.
  error set_link(std::int32_t number, bool up) const;

private:
  descriptor middle_;
  std::vector<descriptor> hosts_;
};

} // namespace farandole::chaos
