// Feeds arbitrary bytes to the parser of job records. It must return a job that the drain or rsh command can
// contact, or an error, and a job must be the same after writing and parsing it again.
#include "tests/fuzz/choices.hpp"
#include "tools/farandole/cli/job_record.hpp"

using namespace farandole;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto job = parse_job_record(text_of(std::as_bytes(std::span(data, size))));
  if (!job) {
    require(!job.error().text.empty());
    return 0;
  }
  require(!job->name.empty());
  require(!job->elastic || (!job->ip.empty() && job->port != 0 && !job->secret.empty()));
  require(job->agent_port == 0 || (!job->agent_ip.empty() && !job->secret.empty()));
  // Only an elastic job has the rendezvous' address, and the command is one line of bounded length.
  const auto text = to_text(*job);
  const auto again = parse_job_record(text);
  require(again && to_text(*again) == text && again->name == job->name && again->elastic == job->elastic &&
          again->launcher == job->launcher);
  if (job->elastic)
    require(again->ip == job->ip && again->port == job->port && again->secret == job->secret);
  if (job->agent_port != 0)
    require(again->agent_ip == job->agent_ip && again->agent_port == job->agent_port &&
            again->secret == job->secret);
  const auto chosen = choose_job({*job}, {});
  require(chosen ? job->elastic : !chosen.error().text.empty());
  return 0;
}
