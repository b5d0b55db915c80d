#include "collectives/plan/early_mail.hpp"

namespace farandole {

error early_mail::hold(const envelope& message, const std::string& what) {
  const auto bytes = message.bytes().size();
  if (mail_.size() >= most_.messages || bytes > most_.bytes - bytes_)
    return {error_kind::overloaded,
            "too much came early: " + what + " would be number " + std::to_string(mail_.size() + 1) +
                " of at most " + std::to_string(most_.messages) + ", with " + std::to_string(bytes_ + bytes) +
                " bytes of at most " + std::to_string(most_.bytes)};
  mail_.push_back(message);
  bytes_ += bytes;
  return {};
}

} // namespace farandole
