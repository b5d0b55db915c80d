// Hosts made of network namespaces, joined by a bridge in one more namespace, where the launcher and the
// rendezvous are. The link of a host can be taken down. The namespaces have no names: the kernel takes them
// away when this object and the processes in them are gone, however they end. Making them needs root and the
// command ip.
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
  /// What every host, and the middle, calls the interface that leads to the others.
  static constexpr const char* interface = "net0";

  /// The calling thread is the only one of its process. The error says what is missing.
  static expected<std::unique_ptr<host_network>> make(std::int32_t hosts);

  /// A network namespace; it belongs to this object.
  int middle() const { return middle_.get(); }
  int host(std::int32_t number) const { return hosts_.at(static_cast<std::size_t>(number)).get(); }
  /// Of the middle.
  std::string address() const { return "10.219.7.1"; }
  /// The path of that namespace, as long as this object is there.
  std::string path(std::int32_t number) const;
  /// For a shell: before a command, it runs that on the host with this path.
  static std::string entrance(const std::string& path);
  /// Takes the host's link down, or brings it up again. Blocks for some milliseconds.
  error set_link(std::int32_t number, bool up) const;

private:
  descriptor middle_;
  std::vector<descriptor> hosts_;
};

} // namespace farandole::chaos
