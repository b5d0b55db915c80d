#include "messages/wire/negotiation.hpp"

#include <algorithm>

#include "messages/wire/departure_form.hpp"
#include "messages/wire/request_form.hpp"
#include "messages/wire/set_change_form.hpp"

namespace farandole {

namespace {

using namespace wire_form;

// The leader never plans more than a tenth of it.
constexpr std::chrono::seconds patience_limit{1};

void write(wire::Bundle::Builder to, const bundle& value) {
  to.setSequence(value.sequence);
  to.setOperation(static_cast<std::uint8_t>(value.operation));
  to.setDtype(static_cast<std::uint8_t>(value.dtype));
  to.setReduceOp(static_cast<std::uint8_t>(value.reduce_op));
  to.setRoot(value.root);
  to.setPrescale(value.prescale);
  to.setPostscale(value.postscale);
  to.setMemory(static_cast<std::uint8_t>(value.memory));
  auto devices = to.initDevices(count_of(value.devices));
  for (kj::uint i = 0; i < devices.size(); ++i)
    devices.set(i, value.devices[i]);
  to.setOrdered(value.ordered);
  auto after = to.initAfter(count_of(value.after));
  for (kj::uint i = 0; i < after.size(); ++i) {
    after[i].setSet(value.after[i].set);
    after[i].setCount(value.after[i].count);
  }
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

bool add(std::int64_t& sum, std::int64_t term, std::int64_t limit) {
  if (term > limit - sum)
    return false;
  sum += term;
  return true;
}

void read_assignment(wire::Assignment::Reader from, assignment& value, validation& so_far) {
  value.id = from.getId();
  value.name = read_name(from.getName(), so_far);
  value.cell = from.getCell();
  value.cell_bytes = from.getCellBytes();
  value.signature = read_signature(from.getSignature(), so_far);
  so_far.require(value.id != 0, id_rule);
  // Far below any offset that overflows when the cell's size is added.
  so_far.require(value.cell >= -1 && value.cell < std::int64_t{1} << 48, "a cell is out of range");
}

void read_failure(wire::Failure::Reader from, failure& value, validation& so_far) {
  value.name = read_name(from.getName(), so_far);
  auto kind = from.getKind();
  if (!so_far.require(kind > 0 && kind < error_kind_count, "an error's kind is unknown"))
    return;
  value.reason.kind = static_cast<error_kind>(kind);
  value.reason.text = read_text(from.getText(), text_limit_bytes, "a failure's text is too long", so_far);
}

// Reads the first extent of every member, in rank order, and adds the elements of all of them to `total`.
void read_first_dims(wire::Entry::Reader from, bundle_entry& value, std::int32_t members, std::int64_t limit,
                     std::int64_t& total, validation& so_far) {
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
        !so_far.require(add(rows, extent, limit), "first extents sum to more than can be counted"))
      return;
    value.first_dims.push_back(extent);
  }
  so_far.require(multiply(rows, value.row_elements, limit) && add(total, rows, limit),
                 "a bundle holds more elements than can be counted");
}

void read_bundle(wire::Bundle::Reader from, bundle& value, std::int32_t members, validation& so_far) {
  value.sequence = from.getSequence();
  if (!read_kind(from, value, so_far))
    return;
  const auto devices = from.getDevices();
  if (!so_far.require(devices.size() == 0 || devices.size() == static_cast<kj::uint>(members),
                      "a bundle states the devices of another number of members"))
    return;
  for (auto device : devices)
    value.devices.push_back(device);
  value.ordered = from.getOrdered();
  read_list(from.getAfter(), value.after, so_far,
            [](wire::SetLaunches::Reader source, set_launches& launches) {
              launches = {source.getSet(), source.getCount()};
            });
  auto limit = most_elements(value.dtype);
  bool gathers = value.operation == operation::allgather;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  read_list(from.getEntries(), value.entries, so_far, [&](wire::Entry::Reader source, bundle_entry& entry) {
    entry.id = source.getId();
    entry.elements = source.getElements();
    if (entry.id == 0)
      entry.name = read_name(source.getName(), so_far);
    so_far.require(entry.elements >= 0, "an entry's elements are negative");
    so_far.require(add(inputs, entry.elements, limit), "a bundle holds more elements than can be counted");
    if (gathers)
      read_first_dims(source, entry, members, limit, outputs, so_far);
  });
}

// Requires that each id is in one bucket only.
void read_planned(capnp::List<wire::Bucket>::Reader from, std::vector<bucket>& buckets, validation& so_far) {
  if (!so_far.require(from.size() <= bucket_limit, "too many buckets are planned at once"))
    return;
  std::vector<std::uint32_t> all;
  read_list(from, buckets, so_far, [&](wire::Bucket::Reader source, bucket& other_bucket) {
    other_bucket.id = source.getId();
    other_bucket.patience = std::chrono::microseconds(source.getPatienceUs());
    so_far.require(other_bucket.id != 0, id_rule);
    read_ids(source.getIds(), other_bucket.ids, so_far);
    so_far.require(!other_bucket.ids.empty(), "a bucket is empty");
    so_far.require(other_bucket.patience <= patience_limit, "a bucket's ids are to wait for too long");
    all.insert(all.end(), other_bucket.ids.begin(), other_bucket.ids.end());
  });
  std::sort(all.begin(), all.end());
  so_far.require(std::adjacent_find(all.begin(), all.end()) == all.end(), "an id is in a bucket twice");
}

void write(wire::Schedule::Builder body, const schedule& value) {
  if (!value.assignments.empty()) {
    auto list = body.initAssignments(count_of(value.assignments));
    for (kj::uint i = 0; i < list.size(); ++i) {
      const auto& entry = value.assignments[i];
      list[i].setId(entry.id);
      list[i].setName(name_of(entry.name));
      list[i].setCell(entry.cell);
      list[i].setCellBytes(entry.cell_bytes);
      wire_form::write(list[i].initSignature(), entry.signature);
    }
  }
  if (!value.forget.empty())
    write_numbers(body.initForget(count_of(value.forget)), value.forget);
  if (!value.retract.empty())
    write_rounds(body.initRetract(count_of(value.retract)), value.retract);
  if (!value.failures.empty()) {
    auto list = body.initFailures(count_of(value.failures));
    for (kj::uint i = 0; i < list.size(); ++i) {
      const auto& entry = value.failures[i];
      list[i].setName(name_of(entry.name));
      list[i].setKind(static_cast<std::uint8_t>(entry.reason.kind));
      list[i].setText(text_of(shortened(entry.reason.text)));
    }
  }
  if (!value.absent.empty()) {
    auto list = body.initAbsent(count_of(value.absent));
    for (kj::uint i = 0; i < list.size(); ++i)
      list.set(i, name_of(value.absent[i]));
  }
  if (!value.ask.empty())
    write_numbers(body.initAsk(count_of(value.ask)), value.ask);
  if (!value.results.empty())
    wire_form::write(body.initResults(count_of(value.results)), value.results);
  if (!value.bundles.empty()) {
    auto list = body.initBundles(count_of(value.bundles));
    for (kj::uint i = 0; i < list.size(); ++i)
      write(list[i], value.bundles[i]);
  }
  if (!value.dissolved.empty())
    write_numbers(body.initDissolved(count_of(value.dissolved)), value.dissolved);
  if (!value.buckets.empty()) {
    auto list = body.initBuckets(count_of(value.buckets));
    for (kj::uint i = 0; i < list.size(); ++i) {
      list[i].setId(value.buckets[i].id);
      write_numbers(list[i].initIds(count_of(value.buckets[i].ids)), value.buckets[i].ids);
      list[i].setPatienceUs(static_cast<std::uint32_t>(value.buckets[i].patience.count()));
    }
  }
  body.setJoined(value.joined);
  body.setEnd(value.end);
  if (value.departed) {
    body.setDepartedRank(value.departed->rank);
    wire_form::write(body.initDeparture(), value.departed->manner);
  }
  body.setChanged(value.changed);
  if (!value.sets.empty())
    wire_form::write(body.initSets(count_of(value.sets)), value.sets);
  if (!value.restarts.empty())
    wire_form::write(body.initRestarts(count_of(value.restarts)), value.restarts);
}

} // namespace

envelope encode(const address& from, const requests& value) {
  return envelope::write([&](wire::Envelope::Builder root) {
    start(root, from);
    wire_form::write(root.initBody().initRequests(), value);
  });
}

envelope encode(const address& from, const schedule& value) {
  return envelope::write([&](wire::Envelope::Builder root) {
    start(root, from);
    write(root.initBody().initSchedule(), value);
  });
}

expected<requests> decode_requests(const envelope& message) {
  return wire_form::decode<requests>(
      message, wire::Envelope::Body::REQUESTS, "requests",
      [](wire::Envelope::Body::Reader root, requests& value, validation& so_far) {
        read_requests(root.getRequests(), value, so_far);
      });
}

expected<schedule> decode_schedule(const envelope& message, std::int32_t members) {
  assert(members > 0);
  return wire_form::decode<schedule>(
      message, wire::Envelope::Body::SCHEDULE, "schedule",
      [members](wire::Envelope::Body::Reader root, schedule& value, validation& so_far) {
        auto body = root.getSchedule();
        read_list(body.getAssignments(), value.assignments, so_far,
                  [&](wire::Assignment::Reader source, assignment& assignment) {
                    read_assignment(source, assignment, so_far);
                  });
        read_ids(body.getForget(), value.forget, so_far);
        read_rounds(body.getRetract(), value.retract, so_far);
        read_list(
            body.getFailures(), value.failures, so_far,
            [&](wire::Failure::Reader source, failure& failure) { read_failure(source, failure, so_far); });
        read_list(body.getAbsent(), value.absent, so_far,
                  [&](capnp::Text::Reader source, std::string& name) { name = read_name(source, so_far); });
        read_ids(body.getAsk(), value.ask, so_far);
        read_values(body.getResults(), value.results, so_far);
        read_list(body.getBundles(), value.bundles, so_far, [&](wire::Bundle::Reader source, bundle& bundle) {
          read_bundle(source, bundle, members, so_far);
        });
        read_buckets(body.getDissolved(), value.dissolved, so_far);
        read_planned(body.getBuckets(), value.buckets, so_far);
        value.joined = body.getJoined();
        value.end = body.getEnd();
        so_far.require(value.joined >= -1 && value.joined < members,
                       "the rank that joined last is not a member");
        if (body.hasDeparture()) {
          value.departed = {body.getDepartedRank(), read(body.getDeparture(), so_far)};
          so_far.require(value.end && value.departed->rank >= 0 && value.departed->rank < members,
                         "the rank that left is not a member, or the schedule does not end the generation");
        }
        value.changed = body.getChanged();
        if (so_far.require(value.changed || body.getSets().size() == 0,
                           "process sets change without a request") &&
            so_far.require(body.getSets().size() <= set_limit, "too many process sets change at once"))
          read_list(body.getSets(), value.sets, so_far, [&](wire::SetEvent::Reader source, set_event& event) {
            event = wire_form::read(source, members, so_far);
          });
        if (so_far.require(body.getRestarts().size() <= set_limit, "too many process sets restart at once"))
          read_list(body.getRestarts(), value.restarts, so_far,
                    [&](wire::SetRestart::Reader source, set_restart& restart) {
                      restart = wire_form::read(source, members, so_far);
                    });
      });
}

} // namespace farandole
