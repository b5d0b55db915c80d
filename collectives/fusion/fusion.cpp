#include "collectives/fusion/fusion.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

#include "collectives/operation.hpp"

namespace farandole {

namespace {

// A bundle must fit into a message with room to spare. Only names, and the first extents of very many members,
// come near this limit.
constexpr std::size_t bundle_words_most = std::size_t{1} << 19;

std::size_t words_of(const ready_tensor& tensor) {
  return 8 + (tensor.details ? tensor.details->name.size() / 8 + tensor.details->first_dims.size() : 0);
}

bool on_equal_devices(const ready_tensor& a, const ready_tensor& b) {
  const ready_details none;
  return (a.details ? *a.details : none).devices == (b.details ? *b.details : none).devices;
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

} // namespace

std::size_t effective_threshold(const fusion_options& options) {
  if (!options.homogeneous || options.threshold_bytes == 0)
    return options.threshold_bytes;
  const std::size_t unit = static_cast<std::size_t>(options.local_size) * 8 * 64;
  return (options.threshold_bytes + unit - 1) / unit * unit;
}

fusion::fusion(const fusion_options& options) : options_(options), threshold_(effective_threshold(options)) {}

void fusion::push(std::span<const ready_tensor> tensors, std::chrono::nanoseconds current_time) {
  for (const auto& tensor : tensors)
    queue_.push_back({tensor, current_time});
}

std::vector<bundle> fusion::take(std::chrono::nanoseconds current_time) {
  std::vector<bundle> bundles;
  triggers_.clear();
  while (!queue_.empty()) {
    pick();
    if (!full_) { // later tensors may still be added
      if (outstanding() >= options_.outstanding)
        break;
      if (current_time < queue_.front().since + options_.cycle_time)
        break;
    }
    bundles.push_back(cut(full_ ? cut_trigger::full : cut_trigger::lane_idle));
  }
  return bundles;
}

std::vector<bundle> fusion::flush() {
  std::vector<bundle> bundles;
  triggers_.clear();
  while (!queue_.empty()) {
    pick();
    bundles.push_back(cut(full_ ? cut_trigger::full : cut_trigger::flushed));
  }
  return bundles;
}

std::optional<std::chrono::nanoseconds> fusion::wake_at() const {
  // At the limit of bundles in progress no timer is needed: take() is called when the next bundle finishes.
  if (queue_.empty() || options_.cycle_time.count() == 0 || outstanding() >= options_.outstanding)
    return std::nullopt;
  return queue_.front().since + options_.cycle_time;
}

void fusion::finished(std::uint64_t sequence) {
  if (sequence < next_sequence_)
    next_finish_ = std::max(next_finish_, sequence + 1);
}

bool fusion::holds_any(std::span<const std::uint32_t> ids) const {
  if (ids.empty())
    return false;
  return std::any_of(queue_.begin(), queue_.end(), [&](const item& waiting) {
    return waiting.tensor.id != 0 && std::find(ids.begin(), ids.end(), waiting.tensor.id) != ids.end();
  });
}

bool fusion::fits(const ready_tensor& head, const ready_tensor& other) const {
  if (other.operation != head.operation || other.dtype != head.dtype || other.memory != head.memory ||
      !on_equal_devices(head, other))
    return false;
  if (options_.groups_alone && other.group != head.group)
    return false;
  return !row_of(head.operation).reduces ||
         (other.reduce_op == head.reduce_op && same_bits(other.prescale, head.prescale) &&
          same_bits(other.postscale, head.postscale));
}

// Selects the tensors that move together with the oldest one. A tensor that does not match is skipped and keeps
// its place, as long as the selected and the skipped tensors together do not exceed the threshold. A later call
// continues where the scan stopped, after more tensors have been pushed.
void fusion::pick() {
  for (; scanned_ < queue_.size() && !full_; ++scanned_) {
    const auto& tensor = queue_[scanned_].tensor;
    if (scanned_ == 0) {
      picked_.push_back(0);
      picked_bytes_ = tensor.bytes;
      picked_words_ = words_of(tensor);
      full_ = threshold_ == 0 || !row_of(tensor.operation).fusible || tensor.bytes >= threshold_;
    } else if (fits(queue_.front().tensor, tensor) && tensor.bytes <= threshold_ - picked_bytes_ &&
               picked_words_ + words_of(tensor) <= bundle_words_most) {
      picked_.push_back(scanned_);
      picked_bytes_ += tensor.bytes;
      picked_words_ += words_of(tensor);
    } else if (tensor.bytes <= threshold_ - picked_bytes_ &&
               skipped_bytes_ <= threshold_ - picked_bytes_ - tensor.bytes) {
      skipped_bytes_ += tensor.bytes;
    } else {
      full_ = true;
      break;
    }
  }
}

bundle fusion::cut(cut_trigger trigger) {
  assert(!picked_.empty());
  triggers_.push_back(trigger);
  bundle result;
  const auto& head = queue_.front().tensor;
  result.sequence = next_sequence_++;
  result.operation = head.operation;
  result.dtype = head.dtype;
  result.reduce_op = head.reduce_op;
  result.root = head.root;
  result.prescale = head.prescale;
  result.postscale = head.postscale;
  result.memory = head.memory;
  if (head.details)
    result.devices = head.details->devices;
  result.entries.reserve(picked_.size());
  for (auto position : picked_) {
    const auto& tensor = queue_[position].tensor;
    auto& entry = result.entries.emplace_back();
    entry.id = tensor.id;
    entry.elements = tensor.elements;
    if (tensor.details) {
      entry.name = tensor.details->name;
      entry.first_dims = tensor.details->first_dims;
      entry.row_elements = tensor.details->row_elements;
    }
  }
  drop_picked();
  return result;
}

void fusion::drop_picked() {
  if (picked_.back() + 1 == picked_.size()) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(picked_.size()));
  } else {
    auto next = picked_.begin();
    std::size_t position = 0;
    std::erase_if(queue_, [&](const item&) {
      const bool gone = next != picked_.end() && *next == position;
      ++position;
      if (gone)
        ++next;
      return gone;
    });
  }
  picked_.clear();
  picked_bytes_ = picked_words_ = skipped_bytes_ = scanned_ = 0;
  full_ = false;
}

} // namespace farandole
