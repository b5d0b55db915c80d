#include "tools/farandole/trace/xspace.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

namespace farandole {

namespace {

using std::chrono::nanoseconds;

constexpr std::uint64_t picosecond_limit = 9'000'000'000'000'000'000;
/// In 2065. The sum of a base, the time of a line and that of an event fits into 64 bits.
constexpr std::uint64_t nanosecond_limit = 3'000'000'000'000'000'000;

/// A field of a message in the encoding of protocol buffers.
struct wire_field {
  std::uint32_t number = 0;
  std::uint64_t value = 0;               ///< of a variable-length integer
  std::span<const std::byte> bytes = {}; ///< of a text, or of a message within the message
};

/// Iterates over the fields of a message.
class wire_reader {
public:
  explicit wire_reader(std::span<const std::byte> message) : rest_(message) {}

  /// False at the end, and where the bytes are no message.
  bool next(wire_field& field) {
    std::uint64_t key = 0, length = 0;
    if (rest_.empty() || !read_integer(key))
      return false;
    field = {static_cast<std::uint32_t>(std::min<std::uint64_t>(key >> 3, UINT32_MAX)), 0, {}};
    switch (key & 7) {
    case 0:
      return read_integer(field.value);
    case 1:
      return take(8, field.bytes);
    case 2:
      return read_integer(length) && take(length, field.bytes);
    case 5:
      return take(4, field.bytes);
    default:
      return fail();
    }
  }
  bool is_broken() const { return is_broken_; }

private:
  bool fail() {
    is_broken_ = true;
    return false;
  }
  bool read_integer(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty())
        return fail();
      const auto group = std::to_integer<std::uint64_t>(rest_.front());
      rest_ = rest_.subspan(1);
      value |= (group & 0x7f) << shift;
      if (group < 0x80)
        return true;
    }
    return fail();
  }
  bool take(std::uint64_t length, std::span<const std::byte>& bytes) {
    if (length > rest_.size())
      return fail();
    bytes = rest_.first(static_cast<std::size_t>(length));
    rest_ = rest_.subspan(static_cast<std::size_t>(length));
    return true;
  }

  std::span<const std::byte> rest_;
  bool is_broken_ = false;
};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Names by id: of the events, or of the statistics, of a plane. They are views of the bytes.
using wire_names = std::map<std::uint64_t, std::string_view>;

class xspace_reader {
public:
  explicit xspace_reader(const profiler_visitor& visit) : visit_(visit) {}

  profiler_facts facts;

  void read_space(std::span<const std::byte> bytes) {
    wire_reader fields(bytes);
    for (wire_field field; fields.next(field);) {
      if (field.number == 1)
        read_plane(field.bytes);
      else if (field.number == 4 && facts.host.empty())
        facts.host = text_of(field.bytes);
    }
    note(fields);
  }

private:
  void note(const wire_reader& fields) {
    if (fields.is_broken() && facts.defect.empty())
      facts.defect = "it is not complete, or is no trace of TensorFlow's profiler";
  }

  /// The names come after the lines that use them.
  void read_plane(std::span<const std::byte> bytes) {
    std::string_view plane;
    wire_names events, statistics;
    wire_reader fields(bytes);
    for (wire_field field; fields.next(field);) {
      if (field.number == 2)
        plane = text_of(field.bytes);
      else if (field.number == 4)
        add_name(field.bytes, events);
      else if (field.number == 5)
        add_name(field.bytes, statistics);
    }
    note(fields);
    wire_reader again(bytes);
    for (wire_field field; again.next(field);) {
      if (field.number == 3)
        read_line(field.bytes, plane, events);
      else if (field.number == 6)
        read_statistic(field.bytes, statistics);
    }
  }

  /// An entry of a map from ids to descriptions, which have the name as their field 2.
  void add_name(std::span<const std::byte> bytes, wire_names& names) {
    std::uint64_t id = 0;
    std::string_view name;
    wire_reader entry(bytes);
    for (wire_field field; entry.next(field);) {
      if (field.number == 1)
        id = field.value;
      if (field.number != 2)
        continue;
      wire_reader description(field.bytes);
      for (wire_field inner; description.next(inner);)
        if (inner.number == 2)
          name = text_of(inner.bytes);
      note(description);
    }
    note(entry);
    names[id] = name;
  }

  void read_statistic(std::span<const std::byte> bytes, const wire_names& names) {
    std::uint64_t id = 0, value = 0;
    wire_reader fields(bytes);
    for (wire_field field; fields.next(field);) {
      if (field.number == 1)
        id = field.value;
      else if (field.number == 3 || field.number == 4)
        value = field.value;
    }
    const auto name = names.find(id);
    if (name == names.end())
      return;
    if (name->second == "profile_start_time" && value <= nanosecond_limit)
      facts.base = nanoseconds(static_cast<std::int64_t>(value));
    else if (name->second == "process_id" && value <= UINT32_MAX)
      facts.processes.insert(static_cast<std::uint32_t>(value)); // JAX writes it
  }

  void read_line(std::span<const std::byte> bytes, std::string_view plane, const wire_names& names) {
    std::uint64_t id = 0, start = 0;
    std::string_view name, shown_name;
    wire_reader fields(bytes);
    for (wire_field field; fields.next(field);) {
      if (field.number == 1)
        id = field.value;
      else if (field.number == 2)
        name = text_of(field.bytes);
      else if (field.number == 3)
        start = field.value;
      else if (field.number == 11)
        shown_name = text_of(field.bytes);
    }
    note(fields);
    profiler_event event;
    event.phase = 'M';
    event.process = plane;
    event.thread = std::to_string(id);
    event.name = shown_name.empty() ? name : shown_name;
    visit_(event);
    event.phase = 'X';
    wire_reader again(bytes);
    for (wire_field field; again.next(field);)
      if (field.number == 4)
        read_event(field.bytes, start, names, event);
  }

  /// The thread is that of `event`.
  void read_event(std::span<const std::byte> bytes, std::uint64_t start, const wire_names& names,
                  profiler_event& event) {
    std::uint64_t id = 0, duration = 0;
    std::optional<std::uint64_t> offset;
    wire_reader fields(bytes);
    for (wire_field field; fields.next(field);) {
      if (field.number == 1)
        id = field.value;
      else if (field.number == 2)
        offset = field.value;
      else if (field.number == 3)
        duration = field.value;
    }
    note(fields);
    if (!offset || *offset > picosecond_limit || duration > picosecond_limit || start > nanosecond_limit) {
      ++facts.unusable; // a sum over several events, or garbage
      return;
    }
    event.time = nanoseconds(static_cast<std::int64_t>(start + *offset / 1000));
    event.duration = nanoseconds(static_cast<std::int64_t>(duration / 1000));
    const auto name = names.find(id);
    event.name = name == names.end() ? "event" : std::string(name->second);
    add_to_facts(facts, event);
    visit_(event);
  }

  const profiler_visitor& visit_;
};

} // namespace

profiler_facts read_xspace(std::span<const std::byte> bytes, const profiler_visitor& visit) {
  xspace_reader reader(visit);
  reader.read_space(bytes);
  return std::move(reader.facts);
}

} // namespace farandole
