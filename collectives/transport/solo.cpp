#include "collectives/transport/solo.hpp"

#include <cstring>

#include "collectives/operation.hpp"
#include "collectives/transport/bundle_bytes.hpp"
#include "collectives/transport/path_setup.hpp"

namespace farandole {

outcome solo_path::run(const work& bundle, const deadline_and_abort& deadline) {
  if (auto problem = why_not_on_cpu(bundle, 1))
    return {problem};
  if (deadline.abort.raised())
    return {{error_kind::disconnected, "the operation was given up: the group has changed"}};
  for (const auto& part : bundle.parts) {
    if (!part.input || !part.output || part.input_bytes == 0)
      continue;
    if (row_of(bundle.operation).reduces)
      reduce_inputs(bundle, part.output, std::span(&part.input, 1), part.input_bytes);
    else if (part.output != part.input)
      std::memcpy(part.output, part.input, part.input_bytes);
  }
  return {};
}

expected<std::unique_ptr<path>> open_solo(const path_setup&) {
  return opened_path{std::make_unique<solo_path>()};
}

} // namespace farandole
