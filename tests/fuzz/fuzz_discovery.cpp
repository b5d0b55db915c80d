// Feeds arbitrary bytes to the parsers of discovery scripts, of the list of -H and of host files. Each must
// return hosts with unique names and a permitted number of slots, or an error. The first byte selects the
// parser, the second the number of slots of a host without one.
#include <set>

#include "elastic/discovery.hpp"
#include "tests/fuzz/choices.hpp"
#include "tools/farandole/hosts.hpp"

using namespace farandole;

namespace {

void check(const std::vector<host_slots>& hosts, std::int32_t fewest_slots) {
  std::set<std::string> names;
  for (const auto& host : hosts) {
    require(!host.name.empty() && host.slots >= fewest_slots && host.slots <= most_slots);
    require(host.name.find_first_of(" \t\n@") == std::string::npos && host.name.front() != '-');
    require(names.insert(host.name).second);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  choices input{{data, size}};
  const auto form = input.below(3);
  const auto slots = input.below(4);
  const auto text = text_of(input.rest());
  if (form == 0) {
    const auto found = parse_discovery(text, slots > 0 ? std::optional(slots) : std::nullopt);
    if (!found)
      return require(!found.error().text.empty()), 0;
    check(found->hosts, 1);
    return 0;
  }
  const auto hosts = form == 1 ? parse_hosts(text) : parse_hostfile(text, "hosts");
  if (!hosts)
    return require(!hosts.error().text.empty()), 0;
  check(*hosts, 0);
  const auto places = place(*hosts, std::max(1, slots));
  require(!places || places->size() == static_cast<std::size_t>(std::max(1, slots)));
  return 0;
}
