#include "collectives/negotiation/bucket_planner.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

namespace {

// Maximum number of ids in a step. With more ids, names do not repeat and there are no steps to recognise.
constexpr std::size_t most_in_step = 65536;

} // namespace

bucket_planner::bucket_planner(const planner_rules& rules) : rules_(rules) {}

// ---- watching -----------------------------------------------------------------------------------

void bucket_planner::completed(std::uint32_t id, std::size_t bytes, std::chrono::nanoseconds since,
                               std::chrono::nanoseconds current_time) {
  if (rules_.buckets == 0)
    return;
  const bool again = in_step_.contains(id);
  if (!again && in_step_.size() == most_in_step)
    spoil();
  if (again || in_step_.size() == most_in_step)
    begin_step();
  in_step_.insert(id);
  step_.push_back({id, bytes, since, current_time});
  as_last_ += last_.contains(id);
}

void bucket_planner::forget(std::uint32_t id) {
  resting_.erase(id);
  if (in_step_.contains(id) || last_.contains(id))
    spoil();
}

void bucket_planner::spoil() {
  spoilt_ = true;
}

void bucket_planner::begin_step() {
  last_.clear();
  if (!spoilt_)
    for (const auto& entry : step_)
      last_.insert(entry.id);
  step_.clear();
  in_step_.clear();
  served_in_step_.clear();
  as_last_ = 0;
  spoilt_ = planned_ = false;
  ++steps_;
}

void bucket_planner::served(std::uint32_t bucket) {
  if (served_in_step_.contains(bucket))
    begin_step();
  served_in_step_.insert(bucket);
  auto& entry = live_.at(bucket);
  ++entry.served;
  entry.last = steps_;
}

// If the bucket was served more often than the number of steps its ids had rested before, the rest starts again
// at its initial value; otherwise it doubles.
void bucket_planner::missed(std::uint32_t bucket) {
  const auto found = live_.find(bucket);
  const auto& live = found->second;
  const auto rest = live.rest == 0 || live.served > live.rest ? rules_.first_rest
                                                              : std::min(2 * live.rest, rules_.longest_rest);
  for (auto id : live.ids)
    resting_.insert_or_assign(id, resting{rest, steps_ + rest});
  if (served_in_step_.contains(bucket))
    in_step_.insert(live.ids.begin(), live.ids.end());
  live_.erase(found);
}

// ---- planning -----------------------------------------------------------------------------------

std::vector<bucket> bucket_planner::plan() {
  std::vector<bucket> buckets;
  if (planned_ || spoilt_ || step_.empty() || step_.size() != last_.size() || as_last_ != last_.size())
    return buckets;
  planned_ = true;
  const auto free = room();
  if (free == 0)
    return buckets;
  auto all = runs();
  deal_out(all, free);
  for (const auto& run : all)
    cut(run, buckets);
  // Ids in buckets are no longer recorded, so the next step cannot be compared with this one.
  if (!buckets.empty())
    spoil();
  for (const auto& planned : buckets)
    served_in_step_.insert(planned.id);
  return buckets;
}

// The number of buckets that may be added. Buckets whose tensors are not requested at present, for example while
// another model is trained, are kept, because their tensors may be requested again. But the total never exceeds
// bucket_limit, the number that a relay keeps and that one message can dissolve.
std::size_t bucket_planner::room() const {
  const auto in_use = static_cast<std::size_t>(std::count_if(
      live_.begin(), live_.end(), [&](const auto& entry) { return entry.second.last + 1 >= steps_; }));
  return std::min(rules_.buckets - std::min(in_use, rules_.buckets), bucket_limit - live_.size());
}

bool bucket_planner::rests(std::uint32_t id) const {
  const auto found = resting_.find(id);
  return found != resting_.end() && steps_ < found->second.deadline;
}

std::vector<bucket_planner::run> bucket_planner::runs() const {
  std::vector<run> all;
  bool open = false;
  for (std::size_t i = 0; i < step_.size(); ++i) {
    const bool usable = !rests(step_[i].id);
    if (usable && open && step_[i].since <= step_[i - 1].current_time) {
      all.back().end = i + 1;
      all.back().bytes += step_[i].bytes;
    } else if (usable) {
      all.push_back({i, i + 1, step_[i].bytes});
    }
    open = usable;
  }
  // A bucket of one id saves nothing.
  std::erase_if(all, [](const run& entry) { return entry.end - entry.first < 2; });
  return all;
}

// Keeps the longest runs, which save most. Assigns the remaining parts to the runs with the most bytes per part.
void bucket_planner::deal_out(std::vector<run>& from, std::size_t parts) {
  const auto length = [](const run& entry) { return entry.end - entry.first; };
  if (from.size() > parts) {
    std::stable_sort(from.begin(), from.end(),
                     [&](const run& a, const run& b) { return length(a) > length(b); });
    from.resize(parts);
    return;
  }
  for (auto left = parts - from.size(); left > 0; --left) {
    run* largest = nullptr;
    for (auto& entry : from)
      if (length(entry) >= 2 * (entry.parts + 1) &&
          (!largest || entry.bytes / entry.parts > largest->bytes / largest->parts))
        largest = &entry;
    if (!largest)
      return;
    ++largest->parts;
  }
}

// Cuts a run into its parts. Each part ends where its size is closest to its share, and has at least two ids.
void bucket_planner::cut(const run& run, std::vector<bucket>& buckets) {
  auto first = run.first;
  std::size_t before = 0;
  for (std::size_t part = 1; part <= run.parts; ++part) {
    const auto parts_left = run.parts - part;
    const auto goal = run.bytes / run.parts * part;
    auto end = first + 2;
    before += step_[first].bytes + step_[first + 1].bytes;
    while (end + 2 * parts_left < run.end && (parts_left == 0 || before + step_[end].bytes / 2 < goal))
      before += step_[end++].bytes;
    buckets.push_back(make(first, end));
    first = end;
  }
}

bucket bucket_planner::make(std::size_t first, std::size_t end) {
  bucket result;
  result.id = ++last_bucket_;
  auto& entry = live_[result.id];
  auto asked = step_[first].since;
  for (auto i = first; i < end; ++i) {
    result.ids.push_back(step_[i].id);
    asked = std::min(asked, step_[i].since);
    if (const auto found = resting_.find(step_[i].id); found != resting_.end())
      entry.rest = std::max(entry.rest, found->second.rest);
  }
  entry.ids = result.ids;
  entry.last = steps_;
  const auto patience =
      std::clamp(4 * (step_[end - 1].current_time - asked), rules_.least_patience, rules_.most_patience);
  result.patience = std::chrono::duration_cast<std::chrono::microseconds>(patience);
  return result;
}

} // namespace farandole
