#include "tools/farandole/jsrun_command.hpp"

#include <utility>

#include "messages/values/printable.hpp"
#include "tools/farandole/cli/shell_words.hpp"
#include "tools/farandole/hosts.hpp"

namespace farandole {

namespace {

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

std::string rank_line(const placement& place, std::int32_t cpus) {
  const auto first = place.local_rank * cpus;
  return "rank: " + std::to_string(place.rank) + ": { hostname: " + place.host + "; cpu: {" +
         std::to_string(first) + "-" + std::to_string(first + cpus - 1) + "} ; gpu: * ; mem: * }\n";
}

} // namespace

expected<std::vector<std::string>> make_jsrun_command(const jsrun_request& request) {
  if (request.timestamps)
    return wrong("jsrun prints no timestamps; leave out --prefix-output-with-timestamp, or launch without it "
                 "(--gloo)");
  std::vector<std::string> words = {"jsrun"};
  if (request.binding_args.empty()) {
    words.insert(words.end(), {"--erf_input", request.rank_file});
  } else {
    const auto binding = split_shell_words(request.binding_args);
    if (!binding)
      return wrong("--binding-args='" + printable_name(request.binding_args) +
                   "' cannot be split into words: " + binding.error().text);
    words.insert(words.end(), binding->begin(), binding->end());
  }
  if (!request.output_filename.empty())
    words.insert(words.end(),
                 {"--stdio_stderr", request.output_filename, "--stdio_stdout", request.output_filename});
  const std::string flags = request.tcp_only ? "-tcp" : "";
  const auto separator = flags.empty() || request.mpi_args.empty() ? "" : " ";
  if (const auto options = flags + separator + request.mpi_args; !options.empty())
    words.insert(words.end(), {"--smpiargs", options});
  words.insert(words.end(), request.command.begin(), request.command.end());
  return words;
}

expected<std::string> jsrun_rank_file(const std::vector<host_slots>& hosts, std::int32_t processes,
                                      std::int32_t cpus_per_host) {
  const auto places = place(hosts, processes);
  if (!places)
    return places.error();
  std::string content = "overlapping_rs: allow\ncpu_index_using: logical\n";
  std::int32_t slots = 0; // of the host of this rank
  for (const auto& rank : *places) {
    if (rank.local_rank == 0) {
      slots = slots_of(hosts, rank.host);
      if (cpus_per_host < slots)
        return wrong(
            "host '" + printable_name(rank.host) + "' has " + std::to_string(slots) + " slots, but only " +
            std::to_string(cpus_per_host) +
            " CPUs, and jsrun gives each rank CPUs of its own; give the host fewer slots (-H), or pass "
            "--binding-args");
      content += "\n";
    }
    content += rank_line(rank, cpus_per_host / slots);
  }
  return content;
}

} // namespace farandole
