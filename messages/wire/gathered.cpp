#include "messages/wire/gathered.hpp"

#include "messages/wire/request_form.hpp"

namespace farandole {

namespace {

using namespace wire_form;

void write_runs(capnp::List<wire::RankRun>::Builder to, const rank_runs& runs) {
  for (kj::uint i = 0; i < to.size(); ++i) {
    to[i].setFirst(runs[i].first);
    to[i].setCount(runs[i].count);
  }
}

void write(wire::Gathered::Builder body, const gathered& value) {
  if (!value.buckets.empty())
    write_numbers(body.initBuckets(count_of(value.buckets)), value.buckets);
  if (!value.ids.empty()) {
    auto list = body.initIds(count_of(value.ids));
    for (kj::uint i = 0; i < list.size(); ++i) {
      const auto& entry = value.ids[i];
      write_numbers(list[i].initIds(count_of(entry.ids)), entry.ids);
      if (!entry.ranks.empty())
        write_runs(list[i].initRanks(count_of(entry.ranks)), entry.ranks);
    }
  }
  if (!value.full.empty()) {
    auto list = body.initFull(count_of(value.full));
    for (kj::uint i = 0; i < list.size(); ++i) {
      const auto& entry = value.full[i];
      wire_form::write(list[i].initWhat(), entry.asked_request);
      if (!entry.ranks.empty())
        write_runs(list[i].initRanks(count_of(entry.ranks)), entry.ranks);
    }
  }
  if (!value.apart.empty()) {
    auto list = body.initApart(count_of(value.apart));
    for (kj::uint i = 0; i < list.size(); ++i) {
      list[i].setRank(value.apart[i].rank);
      wire_form::write(list[i].initWhat(), value.apart[i].batch);
    }
  }
}

void read_runs(capnp::List<wire::RankRun>::Reader from, rank_runs& runs, validation& so_far) {
  // The first rank at which the next run may begin; at least one rank lies between two runs.
  std::int64_t free = 0;
  read_list(from, runs, so_far, [&](wire::RankRun::Reader source, rank_run& run) {
    run = {source.getFirst(), source.getCount()};
    if (!so_far.require(run.count > 0 && run.first >= free, "runs of ranks are empty, or do not ascend"))
      return;
    free = std::int64_t{run.first} + run.count + 1;
    so_far.require(free - 1 <= member_limit, "a run of ranks ends beyond the last rank");
  });
}

} // namespace

envelope encode(const address& from, const gathered& value) {
  return envelope::write([&](wire::Envelope::Builder root) {
    start(root, from);
    write(root.initBody().initGathered(), value);
  });
}

expected<gathered> decode_gathered(const envelope& message) {
  return wire_form::decode<gathered>(
      message, wire::Envelope::Body::GATHERED, "gathered requests",
      [](wire::Envelope::Body::Reader root, gathered& value, validation& so_far) {
        auto body = root.getGathered();
        read_buckets(body.getBuckets(), value.buckets, so_far);
        read_list(body.getIds(), value.ids, so_far, [&](wire::GatheredIds::Reader source, gathered_ids& ids) {
          read_ids(source.getIds(), ids.ids, so_far);
          read_runs(source.getRanks(), ids.ranks, so_far);
        });
        read_list(body.getFull(), value.full, so_far,
                  [&](wire::GatheredRequest::Reader source, gathered_request& request) {
                    read_request(source.getWhat(), request.asked_request, so_far);
                    read_runs(source.getRanks(), request.ranks, so_far);
                  });
        read_list(body.getApart(), value.apart, so_far, [&](wire::Apart::Reader source, said_apart& entry) {
          entry.rank = source.getRank();
          so_far.require(entry.rank >= 0 && entry.rank < member_limit, "a rank is out of range");
          read_requests(source.getWhat(), entry.batch, so_far);
        });
      });
}

} // namespace farandole
