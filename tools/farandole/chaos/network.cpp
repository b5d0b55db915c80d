#include "tools/farandole/chaos/network.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tools/farandole/chaos/child.hpp"

namespace farandole::chaos {

namespace {

constexpr const char* needed =
    "faults of the kinds link, agent, shell and cut need network namespaces, which cannot be made here";

error missing(const std::string& text) {
  return {error_kind::invalid_argument, std::string(needed) + ": " + text};
}

/// The command's path in Debian, for a PATH without the folders of root's commands.
std::string find_ip() {
  for (const char* path : {"/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"})
    if (::access(path, X_OK) == 0)
      return path;
  return {};
}

expected<descriptor> new_namespace() {
  const char* text = "/proc/thread-self/ns/net";
  const descriptor own{::open(text, O_RDONLY | O_CLOEXEC)};
  if (!own || ::unshare(CLONE_NEWNET) != 0)
    return missing(errno == EPERM ? "root is needed" : std::strerror(errno));
  descriptor made{::open(text, O_RDONLY | O_CLOEXEC)};
  const auto problem = made ? 0 : errno;
  if (::setns(own.get(), CLONE_NEWNET) != 0)
    return missing(std::string("the way back: ") + std::strerror(errno));
  if (!made)
    return missing(std::strerror(problem));
  return made;
}

/// Runs commands of ip, one per line, in a namespace.
error configure(int network, const std::string& commands) {
  const auto ip = find_ip();
  if (ip.empty())
    return missing("there is no command ip (Debian package iproute2)");
  const descriptor script{::memfd_create("ip", MFD_CLOEXEC)};
  const auto size = static_cast<ssize_t>(commands.size());
  if (!script || ::write(script.get(), commands.data(), commands.size()) != size ||
      ::lseek(script.get(), 0, SEEK_SET) != 0)
    return missing(std::strerror(errno));
  child_options options;
  options.program = ip.c_str();
  options.words = {"ip", "-batch", "-"};
  options.input = script.get();
  options.network = network;
  const auto ended = run_to_end(options);
  return ended.code == 0 ? error{} : missing("ip: " + ended.said);
}

std::string port(std::int32_t number) {
  return "port" + std::to_string(number);
}

} // namespace

expected<std::unique_ptr<host_network>> host_network::make(std::int32_t hosts) {
  auto made = std::make_unique<host_network>();
  auto middle = new_namespace();
  if (!middle)
    return middle.error();
  made->middle_ = std::move(*middle);
  const std::string name = interface, up = "link set " + name + " up\nlink set lo up\n";
  std::string inside = "link add " + name + " type bridge\naddr add " + made->address() + "/24 dev " + name;
  inside += "\n" + up;
  for (std::int32_t number = 0; number < hosts; ++number) {
    auto host = new_namespace();
    if (!host)
      return host.error();
    made->hosts_.push_back(std::move(*host));
    inside += "link add " + port(number) + " type veth peer name " + name + " netns ";
    inside += made->path(number) + "\nlink set " + port(number) + " master ";
    inside += name + " up\n";
  }
  if (auto problem = configure(made->middle(), inside))
    return problem;
  for (std::int32_t number = 0; number < hosts; ++number) {
    std::string commands = "addr add " + address_of(number) + "/24 dev " + name + "\n";
    commands += up;
    if (auto problem = configure(made->host(number), commands))
      return problem;
  }
  child_options probe;
  probe.program = "sh";
  probe.words = {"sh", "-c", "exec " + entrance(made->path(0)) + " true"};
  if (const auto ended = run_to_end(probe); ended.code != 0)
    return missing(ended.said);
  return made;
}

std::string host_network::path(std::int32_t number) const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(host(number));
}

/// Also mounts /sys again: /sys/class/net shows the network namespace in which /sys was mounted, and libraries
/// read it.
std::string host_network::entrance(const std::string& path) {
  return "nsenter --net=" + path +
         " -- unshare --mount -- sh -c 'mount -t sysfs none /sys && exec \"$@\"' sh";
}

error host_network::set_link(std::int32_t number, bool up) const {
  return configure(middle(), "link set " + port(number) + (up ? " up\n" : " down\n"));
}

} // namespace farandole::chaos
