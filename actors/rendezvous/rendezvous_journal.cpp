#include "actors/rendezvous/rendezvous_journal.hpp"

#include <optional>
#include <string>

#include "messages/wire/rendezvous_recovery.hpp"

namespace farandole {

namespace {

std::string text_of(const membership_rules& rules) {
  return std::to_string(rules.size) +
         (rules.elastic ? " (" + std::to_string(rules.minimum) + " to " + std::to_string(rules.limit) + ")"
                        : "");
}

} // namespace

expected<membership> restore_membership(const rendezvous_options& options) {
  const auto found = options.journal ? options.journal->found() : std::nullopt;
  const auto epoch = next_epoch(found ? found->epoch : 0, options.draw);
  if (!found || !options.apart)
    return membership{options.members, epoch};
  const membership_rules kept{found->size, found->elastic, found->minimum, found->limit};
  if (text_of(kept) != text_of(options.members))
    return error{error_kind::precondition, "the journal " + options.journal->path() + " is of a job of " +
                                               text_of(kept) + " members, and this one has " +
                                               text_of(options.members) + ": give it a journal of its own"};
  return membership::restored(*found, epoch);
}

void record_start(const rendezvous_options& options, const membership& members) {
  if (!options.journal)
    return;
  auto image = members.image();
  if (options.apart && options.journal->found())
    image.launcher = options.journal->found()->launcher;
  if (const auto problem = options.journal->remember(image); problem && options.log)
    options.log->warning(problem.text);
}

} // namespace farandole
