#include "tools/farandole/trace/profiler_tracks.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "messages/values/printable.hpp"

namespace farandole {

namespace {

using std::chrono::nanoseconds;

/// Threads of profilers have numbers from this on.
constexpr std::uint32_t first_thread = 1'000;
constexpr std::size_t thread_limit = 4'096; ///< of a file
constexpr std::size_t id_limit = 1'000'000; ///< of a file
constexpr std::chrono::hours margin{1};

/// The number behind the last `rank`, `rank-` or `rank_` of the path.
std::optional<std::int32_t> rank_in(const std::string& path) {
  constexpr std::string_view word = "rank";
  for (auto place = path.rfind(word); place != std::string::npos; place = path.rfind(word, place - 1)) {
    auto digits = place + word.size();
    if (digits < path.size() && (path[digits] == '-' || path[digits] == '_'))
      ++digits;
    std::int32_t rank = 0;
    const auto [end, failure] = std::from_chars(path.data() + digits, path.data() + path.size(), rank);
    const bool is_word = place == 0 || std::isalpha(static_cast<unsigned char>(path[place - 1])) == 0;
    if (is_word && failure == std::errc() && rank >= 0)
      return rank;
    if (place == 0)
      break;
  }
  return std::nullopt;
}

/// Chooses a record by what a file says of its process.
class record_choice {
public:
  record_choice(const std::string& path, const profiler_facts& facts,
                const std::vector<event_record>& records)
      : path_(path), facts_(facts), records_(records) {}

  expected<std::size_t> choose() const {
    const auto of_process = [&](const event_record& record) {
      return facts_.processes.contains(record.process);
    };
    const auto on_host = [&](const event_record& record) { return record.member.host == facts_.host; };
    const auto always = [](const event_record&) { return true; };
    for (const auto& same : {only(of_process), only([&](const event_record& record) {
                               return of_process(record) && on_host(record);
                             })})
      if (same)
        return *same;
    if (const auto named = rank_in(path_))
      return of_rank(*named);
    if (facts_.rank)
      return of_rank(*facts_.rank);
    for (const auto& single : {only(always), only(on_host)})
      if (single)
        return *single;
    return error{error_kind::invalid_argument,
                 path_ +
                     " is left out: it does not say which rank wrote it; put the rank into the name of the "
                     "file or of its folder, such as rank-3"};
  }

private:
  /// The record with this property, if there is exactly one.
  template <typename property>
  std::optional<std::size_t> only(const property& holds) const {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < records_.size(); ++i) {
      if (records_[i].member.rank < 0 || !holds(records_[i]))
        continue;
      if (found)
        return std::nullopt;
      found = i;
    }
    return found;
  }
  /// Of two processes that had a rank, the later one.
  expected<std::size_t> of_rank(std::int32_t rank) const {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < records_.size(); ++i)
      if (records_[i].member.rank == rank &&
          (!found || records_[*found].origin.system < records_[i].origin.system))
        found = i;
    if (found)
      return *found;
    return error{error_kind::invalid_argument, path_ + " is left out: there is no record of rank " +
                                                   std::to_string(rank) + ", which wrote it"};
  }

  const std::string& path_;
  const profiler_facts& facts_;
  const std::vector<event_record>& records_;
};

} // namespace

std::pair<nanoseconds, nanoseconds> shown_times(const event_record& record, nanoseconds reading) {
  return {record.origin.system - margin, (record.copied ? record.copied->time.system : reading) + margin};
}

expected<std::size_t> record_of(const std::string& path, const profiler_facts& facts,
                                const std::vector<event_record>& records, nanoseconds reading) {
  auto found = record_choice(path, facts, records).choose();
  if (!found)
    return found;
  const auto [begin, end] = shown_times(records[*found], reading);
  const auto base = facts.base.value_or(nanoseconds{0});
  if (base + facts.last < begin || base + facts.first > end)
    return error{error_kind::invalid_argument,
                 path + " is left out: its events are not from the time of rank " +
                     std::to_string(records[*found].member.rank) + ", so it is of another run"};
  return found;
}

void profiler_tracks::begin_file(const std::string& profiler, nanoseconds base) {
  profiler_ = profiler;
  base_ = base;
  names_.clear();
  threads_.clear();
  ids_.clear();
}

void profiler_tracks::add(const profiler_event& event, json_events& json) {
  if (event.phase == 'M') {
    if (names_.size() < thread_limit)
      names_[{event.process, event.thread}] = event.name;
    return;
  }
  const auto time = base_ + event.time;
  const auto thread = time < shown_.first || time > shown_.second ? 0 : thread_of(event, json);
  const auto id = event.id.empty() || thread == 0 ? 0 : id_of(event, json);
  if (thread == 0 || (id == 0 && !event.id.empty())) {
    ++left_out_;
    return;
  }
  ++count_;
  json.copy(event, {process_, thread, axis_.at(time)}, axis_.at(time + event.duration), id);
}

std::uint32_t profiler_tracks::thread_of(const profiler_event& event, json_events& json) {
  const thread_key key{event.process, event.thread};
  const auto found = threads_.find(key);
  if (found != threads_.end())
    return found->second;
  if (threads_.size() == thread_limit)
    return 0;
  const auto thread = first_thread + thread_count_++;
  threads_.emplace(key, thread);
  const auto named = names_.find(key);
  const auto process = event.process == own_process_ || event.process.empty() ? "" : event.process + " ";
  json.name_thread(process_, thread,
                   profiler_ + ": " +
                       printable_name(process + (named == names_.end() ? event.thread : named->second)));
  return thread;
}

std::uint64_t profiler_tracks::id_of(const profiler_event& event, json_events& json) {
  const auto found = ids_.find({event.category, event.id});
  if (found != ids_.end())
    return found->second;
  if (ids_.size() == id_limit)
    return 0;
  return ids_[{event.category, event.id}] = json.next_id();
}

} // namespace farandole
