#include "messages/negotiation.hpp"

#include <cassert>
#include <limits>
#include <type_traits>

#include "messages/decoding.hpp"
#include "messages/membership.hpp"
#include "messages/set_change_form.hpp"

namespace farandole {

namespace {

using wire_form::list_limit;
using wire_form::read_text;
using wire_form::shortened;
using wire_form::text_limit_bytes;
using wire_form::text_of;
using wire_form::verdict;
using wire_form::words_of_text;

constexpr const char* list_rule = "a list is too long";
constexpr const char* id_rule = "an id is 0";
constexpr const char* name_rule = "a name is longer than 4096 bytes";

// Sizes in words, without what stands behind pointers: envelope and its root pointer, then the structs of the
// schema.
constexpr std::size_t envelope_words = 8;
constexpr std::size_t body_words = 12;
constexpr std::size_t list_words = 2;

std::size_t words_of(const signature& value) {
  return 6 + value.shape.size();
}

void start(wire::Envelope::Builder root, const address& from) {
  root.setGeneration(from.generation);
  root.setSet(from.set);
  root.setSource(from.source);
}

void write(wire::Signature::Builder to, const signature& value) {
  to.setOperation(static_cast<std::uint8_t>(value.operation));
  to.setDtype(static_cast<std::uint8_t>(value.dtype));
  to.setReduceOp(static_cast<std::uint8_t>(value.reduce_op));
  to.setRoot(value.root);
  to.setPrescale(value.prescale);
  to.setPostscale(value.postscale);
  if (value.shape.empty())
    return;
  auto extents = to.initShape(static_cast<kj::uint>(value.shape.size()));
  for (kj::uint i = 0; i < extents.size(); ++i)
    extents.set(i, value.shape[i]);
}

void write_numbers(capnp::List<std::uint32_t>::Builder to, const std::vector<std::uint32_t>& numbers) {
  for (kj::uint i = 0; i < to.size(); ++i)
    to.set(i, numbers[i]);
}

void write_rounds(capnp::List<wire::Round>::Builder to, const std::vector<board_round>& rounds) {
  for (kj::uint i = 0; i < to.size(); ++i) {
    to[i].setId(rounds[i].id);
    to[i].setRound(rounds[i].round);
  }
}

template <class List>
kj::uint count_of(const List& list) {
  assert(list.size() <= list_limit);
  return static_cast<kj::uint>(list.size());
}

capnp::Text::Reader name_of(const std::string& name) {
  assert(name.size() <= name_limit_bytes); // checked where the caller hands the tensor over
  return text_of(name);
}

void write(wire::Bundle::Builder to, const bundle& value) {
  to.setSequence(value.sequence);
  to.setOperation(static_cast<std::uint8_t>(value.operation));
  to.setDtype(static_cast<std::uint8_t>(value.dtype));
  to.setReduceOp(static_cast<std::uint8_t>(value.reduce_op));
  to.setRoot(value.root);
  to.setPrescale(value.prescale);
  to.setPostscale(value.postscale);
  auto entries = to.initEntries(count_of(value.entries));
  for (kj::uint i = 0; i < entries.size(); ++i) {
    const auto& source = value.entries[i];
    auto entry = entries[i];
    entry.setId(source.id);
    entry.setElements(source.elements);
    if (source.id == 0)
      entry.setName(name_of(source.name));
    if (source.first_dims.empty())
      continue;
    entry.setRowElements(source.row_elements);
    auto dims = entry.initFirstDims(count_of(source.first_dims));
    for (kj::uint k = 0; k < dims.size(); ++k)
      dims.set(k, source.first_dims[k]);
  }
}

// How many elements of `type` fit so that their bytes can still be counted.
std::int64_t most_elements(dtype type) {
  return std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(size_of(type));
}

// Multiplies in place; false when the product would pass `most`. Neither factor is negative.
bool multiply(std::int64_t& product, std::int64_t factor, std::int64_t most) {
  if (factor != 0 && product > most / factor)
    return false;
  product *= factor;
  return true;
}

bool add(std::int64_t& sum, std::int64_t term, std::int64_t most) {
  if (term > most - sum)
    return false;
  sum += term;
  return true;
}

// What signatures and bundles have in common.
template <class Reader, class Value>
bool read_kind(Reader from, Value& value, verdict& so_far) {
  auto type = dtype_from(from.getDtype());
  auto op = reduce_op_from(from.getReduceOp());
  if (!so_far.require(from.getOperation() < operation_count, "an operation's number is unknown") ||
      !so_far.require(type.has_value(), "a dtype's number is unknown") ||
      !so_far.require(op.has_value(), "a reduce op's number is unknown"))
    return false;
  value.operation = static_cast<operation>(from.getOperation());
  value.dtype = *type;
  value.reduce_op = *op;
  value.root = from.getRoot();
  value.prescale = from.getPrescale();
  value.postscale = from.getPostscale();
  auto least_root = value.operation == operation::broadcast ? 0 : -1;
  return so_far.require(value.root >= least_root && value.root < member_limit, "a root is out of range");
}

signature read_signature(wire::Signature::Reader from, verdict& so_far) {
  signature value;
  if (!read_kind(from, value, so_far))
    return value;
  auto extents = from.getShape();
  if (!so_far.require(extents.size() <= rank_limit, "a shape has more than 64 dimensions"))
    return value;
  value.shape.reserve(extents.size());
  // Zeroes are left out, so that the product of the others is safe in whatever order it is taken.
  std::int64_t elements = 1;
  for (auto extent : extents) {
    if (!so_far.require(extent >= 0, "an extent is negative") ||
        !so_far.require(multiply(elements, extent == 0 ? 1 : extent, most_elements(value.dtype)),
                        "a shape holds more elements than can be counted"))
      return value;
    value.shape.push_back(extent);
  }
  return value;
}

std::string read_name(capnp::Text::Reader text, verdict& so_far) {
  so_far.require(text.size() > 0, "a name is empty");
  return read_text(text, name_limit_bytes, name_rule, so_far);
}

void read_ids(capnp::List<std::uint32_t>::Reader from, std::vector<std::uint32_t>& ids, verdict& so_far) {
  if (!so_far.require(from.size() <= list_limit, list_rule))
    return;
  ids.resize(from.size());
  bool any_zero = false;
  for (kj::uint i = 0; i < from.size(); ++i) {
    ids[i] = from[i];
    any_zero |= ids[i] == 0;
  }
  so_far.require(!any_zero, id_rule);
}

// Reads a list of structs with `read_one(reader, value)`, as far as no rule is broken.
template <class List, class Value, class ReadOne>
void read_list(List from, std::vector<Value>& values, verdict& so_far, ReadOne read_one) {
  if (!so_far.require(from.size() <= list_limit, list_rule))
    return;
  values.reserve(from.size());
  for (kj::uint i = 0; i < from.size() && so_far.good(); ++i)
    read_one(from[i], values.emplace_back());
}

void read_rounds(capnp::List<wire::Round>::Reader from, std::vector<board_round>& rounds, verdict& so_far) {
  read_list(from, rounds, so_far, [&](wire::Round::Reader source, board_round& round) {
    round = {source.getId(), source.getRound()};
    so_far.require(round.id != 0, id_rule);
  });
}

void read_request(wire::Request::Reader from, request& value, verdict& so_far) {
  value.name = read_name(from.getName(), so_far);
  value.signature = read_signature(from.getSignature(), so_far);
  value.group = from.getGroup();
  value.group_size = from.getGroupSize();
  so_far.require(value.group == 0 || (value.group_size > 0 && value.group_size <= list_limit),
                 "a group's size is out of range");
}

void read_assignment(wire::Assignment::Reader from, assignment& value, verdict& so_far) {
  value.id = from.getId();
  value.name = read_name(from.getName(), so_far);
  value.cell = from.getCell();
  value.cell_bytes = from.getCellBytes();
  value.signature = read_signature(from.getSignature(), so_far);
  so_far.require(value.id != 0, id_rule);
  // Far below what overflows when the cell's size is added.
  so_far.require(value.cell >= -1 && value.cell < std::int64_t{1} << 48, "a cell is out of range");
}

void read_failure(wire::Failure::Reader from, failure& value, verdict& so_far) {
  value.name = read_name(from.getName(), so_far);
  auto kind = from.getKind();
  if (!so_far.require(kind > 0 && kind < error_kind_count, "an error's kind is unknown"))
    return;
  value.reason.kind = static_cast<error_kind>(kind);
  value.reason.text = read_text(from.getText(), text_limit_bytes, "a failure's text is too long", so_far);
}

// Rows of every member, in rank order; `elements` of the bundle grows by what they hold together.
void read_first_dims(wire::Entry::Reader from, bundle_entry& value, std::int32_t members, std::int64_t most,
                     std::int64_t& total, verdict& so_far) {
  auto dims = from.getFirstDims();
  value.row_elements = from.getRowElements();
  if (!so_far.require(dims.size() == static_cast<kj::uint>(members),
                      "first extents do not match the members") ||
      !so_far.require(value.row_elements >= 0, "a row's elements are negative"))
    return;
  value.first_dims.reserve(dims.size());
  std::int64_t rows = 0;
  for (auto extent : dims) {
    if (!so_far.require(extent >= 0, "a first extent is negative") ||
        !so_far.require(add(rows, extent, most), "first extents sum to more than can be counted"))
      return;
    value.first_dims.push_back(extent);
  }
  so_far.require(multiply(rows, value.row_elements, most) && add(total, rows, most),
                 "a bundle holds more elements than can be counted");
}

void read_bundle(wire::Bundle::Reader from, bundle& value, std::int32_t members, verdict& so_far) {
  value.sequence = from.getSequence();
  if (!read_kind(from, value, so_far))
    return;
  auto most = most_elements(value.dtype);
  bool gathers = value.operation == operation::allgather;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  read_list(from.getEntries(), value.entries, so_far, [&](wire::Entry::Reader source, bundle_entry& entry) {
    entry.id = source.getId();
    entry.elements = source.getElements();
    if (entry.id == 0)
      entry.name = read_name(source.getName(), so_far);
    so_far.require(entry.elements >= 0, "an entry's elements are negative");
    so_far.require(add(inputs, entry.elements, most), "a bundle holds more elements than can be counted");
    if (gathers)
      read_first_dims(source, entry, members, most, outputs, so_far);
  });
}

} // namespace

envelope encode(const address& from, const requests& value) {
  auto guess =
      envelope_words + body_words + value.ids.size() / 2 + list_words + value.left.size() * 2 + list_words;
  for (const auto& one : value.full)
    guess += 3 + words_of(one.signature) + words_of_text(one.name.size());
  for (const auto& name : value.withdraw)
    guess += 1 + words_of_text(name.size());
  if (value.change)
    guess += wire_form::words_of(*value.change);
  return envelope::write(
      [&](wire::Envelope::Builder root) {
        start(root, from);
        auto body = root.initBody().initRequests();
        if (!value.ids.empty())
          write_numbers(body.initIds(count_of(value.ids)), value.ids);
        if (!value.full.empty()) {
          auto list = body.initFull(count_of(value.full));
          for (kj::uint i = 0; i < list.size(); ++i) {
            const auto& one = value.full[i];
            list[i].setName(name_of(one.name));
            write(list[i].initSignature(), one.signature);
            list[i].setGroup(one.group);
            list[i].setGroupSize(one.group_size);
          }
        }
        if (!value.left.empty())
          write_rounds(body.initLeft(count_of(value.left)), value.left);
        body.setJoin(value.join);
        body.setShutdown(value.shutdown);
        if (!value.withdraw.empty()) {
          auto list = body.initWithdraw(count_of(value.withdraw));
          for (kj::uint i = 0; i < list.size(); ++i)
            list.set(i, name_of(value.withdraw[i]));
        }
        if (value.change)
          wire_form::write(body.initChange(), *value.change);
        body.setFinished(value.finished);
      },
      guess);
}

namespace {

std::size_t words_of(const schedule& value) {
  auto words = envelope_words + body_words + 4 * list_words;
  words += (value.forget.size() + value.ask.size()) / 2 + value.retract.size() * 2;
  for (const auto& one : value.assignments)
    words += 4 + words_of(one.signature) + words_of_text(one.name.size());
  for (const auto& one : value.failures)
    words += 3 + words_of_text(one.name.size()) + words_of_text(one.reason.text.size());
  for (const auto& one : value.bundles) {
    words += 6 + list_words + one.entries.size() * 5;
    for (const auto& entry : one.entries)
      words += entry.first_dims.size() + (entry.id == 0 ? words_of_text(entry.name.size()) : 0);
  }
  for (const auto& one : value.sets)
    words += wire_form::words_of(one);
  return words;
}

void write(wire::Schedule::Builder body, const schedule& value) {
  if (!value.assignments.empty()) {
    auto list = body.initAssignments(count_of(value.assignments));
    for (kj::uint i = 0; i < list.size(); ++i) {
      const auto& one = value.assignments[i];
      list[i].setId(one.id);
      list[i].setName(name_of(one.name));
      list[i].setCell(one.cell);
      list[i].setCellBytes(one.cell_bytes);
      write(list[i].initSignature(), one.signature);
    }
  }
  if (!value.forget.empty())
    write_numbers(body.initForget(count_of(value.forget)), value.forget);
  if (!value.retract.empty())
    write_rounds(body.initRetract(count_of(value.retract)), value.retract);
  if (!value.failures.empty()) {
    auto list = body.initFailures(count_of(value.failures));
    for (kj::uint i = 0; i < list.size(); ++i) {
      const auto& one = value.failures[i];
      list[i].setName(name_of(one.name));
      list[i].setKind(static_cast<std::uint8_t>(one.reason.kind));
      list[i].setText(text_of(shortened(one.reason.text)));
    }
  }
  if (!value.ask.empty())
    write_numbers(body.initAsk(count_of(value.ask)), value.ask);
  if (!value.bundles.empty()) {
    auto list = body.initBundles(count_of(value.bundles));
    for (kj::uint i = 0; i < list.size(); ++i)
      write(list[i], value.bundles[i]);
  }
  body.setJoined(value.joined);
  body.setEnd(value.end);
  body.setChanged(value.changed);
  if (!value.sets.empty())
    wire_form::write(body.initSets(count_of(value.sets)), value.sets);
}

} // namespace

envelope encode(const address& from, const schedule& value) {
  return envelope::write(
      [&](wire::Envelope::Builder root) {
        start(root, from);
        write(root.initBody().initSchedule(), value);
      },
      words_of(value));
}

expected<requests> decode_requests(const envelope& message) {
  return wire_form::decode<requests>(
      message, wire::Envelope::Body::REQUESTS, "requests",
      [](wire::Envelope::Body::Reader root, requests& value, verdict& so_far) {
        auto body = root.getRequests();
        read_ids(body.getIds(), value.ids, so_far);
        read_list(body.getFull(), value.full, so_far,
                  [&](wire::Request::Reader source, request& one) { read_request(source, one, so_far); });
        read_rounds(body.getLeft(), value.left, so_far);
        value.join = body.getJoin();
        value.shutdown = body.getShutdown();
        read_list(body.getWithdraw(), value.withdraw, so_far,
                  [&](capnp::Text::Reader source, std::string& name) { name = read_name(source, so_far); });
        if (body.hasChange())
          value.change = wire_form::read(body.getChange(), so_far);
        value.finished = body.getFinished();
      });
}

expected<schedule> decode_schedule(const envelope& message, std::int32_t members) {
  assert(members > 0);
  return wire_form::decode<schedule>(
      message, wire::Envelope::Body::SCHEDULE, "schedule",
      [members](wire::Envelope::Body::Reader root, schedule& value, verdict& so_far) {
        auto body = root.getSchedule();
        read_list(
            body.getAssignments(), value.assignments, so_far,
            [&](wire::Assignment::Reader source, assignment& one) { read_assignment(source, one, so_far); });
        read_ids(body.getForget(), value.forget, so_far);
        read_rounds(body.getRetract(), value.retract, so_far);
        read_list(body.getFailures(), value.failures, so_far,
                  [&](wire::Failure::Reader source, failure& one) { read_failure(source, one, so_far); });
        read_ids(body.getAsk(), value.ask, so_far);
        read_list(body.getBundles(), value.bundles, so_far, [&](wire::Bundle::Reader source, bundle& one) {
          read_bundle(source, one, members, so_far);
        });
        value.joined = body.getJoined();
        value.end = body.getEnd();
        so_far.require(value.joined >= -1 && value.joined < members,
                       "the rank that joined last is no member");
        value.changed = body.getChanged();
        if (so_far.require(value.changed || body.getSets().size() == 0, "process sets change unasked") &&
            so_far.require(body.getSets().size() <= set_limit, "too many process sets change at once"))
          read_list(body.getSets(), value.sets, so_far, [&](wire::SetEvent::Reader source, set_event& one) {
            one = wire_form::read(source, members, so_far);
          });
      });
}

} // namespace farandole
