// The setting of the ports on which a process may listen, as a value.
#pragma once

#include "messages/settings/settings.hpp"
#include "messages/values/port_range.hpp"

namespace farandole {

inline port_range ports_of(const settings& values) {
  return port_range::parse(values.text(setting::port_range)).value_or(port_range{});
}

} // namespace farandole
