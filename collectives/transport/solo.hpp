// The path of a set with one member. It moves no bytes between processes, but applies scales and fills
// outputs.
#pragma once

#include <memory>

#include "collectives/transport/path.hpp"

namespace farandole {

struct path_setup;

class solo_path : public path {
public:
  std::string_view name() const override { return "solo"; }
  outcome run(const work& bundle, const deadline_and_abort& deadline) override;
};

expected<std::unique_ptr<path>> open_solo(const path_setup& setup);

} // namespace farandole
