#include "messages/settings/settings.hpp"

#include <cassert>
#include <vector>

#include "messages/settings/setting_rows.hpp"

namespace farandole {

namespace {

// In the order of the enumerators.
std::vector<setting_row> all_rows() {
  std::vector<setting_row> all;
  for (const auto part : {members_settings(), job_settings(), deadlines_settings(), watching_settings(),
                          launch_settings(), tuner_settings(), spark_settings()})
    all.insert(all.end(), part.begin(), part.end());
  for (std::size_t index = 0; index < all.size(); ++index)
    assert(static_cast<std::size_t>(all[index].id) == index);
  return all;
}

} // namespace

std::span<const setting_row> setting_table() {
  // Leaked on purpose: threads of a runtime may still read the table while the process exits.
  static const auto& all = *new std::vector<setting_row>(all_rows());
  return all;
}

const setting_row& row_of(setting id) {
  const auto all = setting_table();
  const auto index = static_cast<std::size_t>(id);
  assert(index < all.size());
  return all[index];
}

} // namespace farandole
