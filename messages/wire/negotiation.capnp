@0xe7a40c1f93b25d68;
# Negotiation: a tensor may move when every member of the set has requested it with signatures that agree.
#
#   member → leader    Requests   the tensors that this member is ready for
#   leader → members   Schedule   the tensors that move now, in which order, and other decisions
#
# Names and ids
# -------------
# A tensor is identified by its name until the leader knows it. With the first bundle that contains it, the leader
# assigns an id to (name, signature); from then on both sides send the id. An id is never reused within its
# generation. The leader may forget an id, because its cache is bounded or because ranks no longer agree. It then
# sends `ask` to the members that wait under this id, and to those that send it afterwards. Such a member answers with
# the full request of its pending tensor of that id, or with nothing if none is pending. Members drop the ids listed
# in `forget`: they send them no more, but still answer an `ask` for a pending tensor. No bundle contains an id after
# its `forget`.
#
# The fast path
# -------------
# An assignment may grant a cell on the fast path (`cell` is its offset in every member's fast path area, -1 for
# none). From then on, the members, which are all on one host, publish this tensor there, in rounds counted from 0 per
# id, and the leader receives no requests for it.
# - A member that must leave the fast path (it joined, or its signature changed) reports in `left` the round that it
#   will not publish. The leader answers all members with `retract`, and a member that waits in exactly that round
#   withdraws its cell and sends a full request. A retracted id is forgotten.
# - A member that joins while it waits in an incomplete round gives up that round itself: it withdraws its cell,
#   reports the round in `left`, and sends the full request before `join`. So the others may request this tensor at
#   any time.
# - For a tensor above the fast path limit, and for every reducescatter, allgather and alltoall, a member stages its
#   tensor in shared memory and publishes a row descriptor instead (`cellBytes` is the size of the descriptor and of the
#   members' counters). Once all have published, the waiting callers run the operation themselves. In an allgather or
#   alltoall each of them writes its rows into the results of the others
#   (collectives/transport/shm/row_descriptor.hpp).
# - A cell is useful only to callers that wait. A member whose callers only leave callbacks, or do not wait at once
#   for an operation that callers run themselves, sets `noFastPath` in its full request. An id that any member has
#   requested so is never granted a cell. A member that was granted one all the same, because its earlier request was
#   different, leaves it as described above.
#
# Operations whose rows differ between members
# --------------------------------------------
# Reducescatter: all members have the same shape, so each member knows from its own which rows each member gets: the
# first extent divided by the number of members, and one more row for each of the first members until no row remains.
# So a bundle contains no more about it than about an allreduce.
# Alltoall: the first extents of the members differ, and so do the numbers of rows for each member. The leader
# compares the rest of the shape and does not learn the numbers of rows. The members exchange them on the data path,
# just before the bytes of the tensor, so one id serves for any distribution of rows. A bundle contains at most one
# alltoall.
#
# Process sets
# ------------
# All members of the job change the table of process sets together, in the global set (0). Each member sends `change`,
# and has at most one change in flight. When all have sent it, the leader answers all members: with `changed`, and the
# sets that start and end in `sets`, or with a failure of the name "farandole.process_sets".
# A set has an id and a number. The id is shown to users; ids of removed sets are reused, the oldest first. The number
# is used in envelopes; it increases and is never reused within the generation, so a late message of a removed set
# cannot be mistaken for one of its successor. Requests of every set go to the leader of the global set, which answers
# only the members of that set. A set that ends gets a last Schedule with `end`.
#
# If part of a set fails on a member, that member reports it in `faults`, in the global set. The leader answers all
# members in the global set's schedule: the set ends at once on all its members, with everything pending in it, and
# restarts under its id with the next number. So the number is the set's epoch: messages with an old number are
# dropped. If several members report the same number, the first report counts. The answer to the others, and to a
# report of a set that has already been removed, is that the old number ends and no new one begins.
# If the leader is not a member of a set, the set's first member reports to it the number of finished bundles
# (`finished`), because the fusion of tensors depends on the amount of data in flight.
#
# Absent contributions
# --------------------
# A member that has nothing to contribute to an allreduce or allgather in this step, for example a gradient of a
# parameter that it did not use, says so in its full request (`absent`), and never by an id. The leader treats it as
# follows:
# - Every member that has not joined is absent: the tensor is listed in `absent` of the schedule. It does not move, and
#   has no result.
# - Others request the same: the tensor moves, and the absent member contributes what it has submitted: zeros, or what it
#   has left of earlier contributions.
# - Others request an allgather of that name in place of its allreduce, or of int64 in place of its allgather of another
#   type: they gather the indices of a sparse gradient, and the absent member contributes no rows. It learns their number
#   and size from the bundle.
# A tensor gets no id in a step in which a member is absent, and an id that it had is forgotten: so all members request
# it in full until all of them contribute again.
#
# Inline values
# -------------
# In a set whose members are on several hosts and all communicate with the leader directly, a small tensor to be
# reduced may be sent with the request for its id (`values`). If all members have sent it inline, the leader reduces
# it and answers with the result (`results`) instead of a bundle: one round trip, and no data path. If a member has
# not, because it joined or sent more than fits inline into a message, the leader drops the values and the tensor
# moves in a bundle.
#
# Relays
# ------
# In a job of many hosts, not all members communicate with the leader directly: the first rank of each host is its
# relay (on the leader's own host the second), and relays have relays above them (collectives/relay/relay_tree.hpp).
# Relays merge the requests of the members on the way up:
#
#   relay → its parent  Gathered   the requests of the relay and the members below it
#
# A relay sends an id, or a full request, once all members below it have requested it or have joined. It sends an
# incomplete one only after a while, so that the leader still learns which members are late. Everything else that a
# member sends is forwarded unchanged. The fields of Gathered are applied in the order of the struct. Schedules travel
# down the same tree unchanged.
#
# Buckets
# -------
# Ids that become ready together in every step are planned together. The leader announces a bucket to all members: its
# number, which is never reused within its generation and set, its ids, and how long these may wait for each other.
# From then on a member holds back an id of the bucket until it is ready for all of its ids, and then sends the
# bucket's number instead of them. A relay does the same with the requests of all members below it. Ids that cannot
# wait any longer are sent as ids, ahead of the parts that must not overtake them: `left`, `join`, `leaves`,
# `withdraw`, `change` and `faults`. To the leader and to the relays above, a bucket from below means the same as its
# ids. This holds for a while after it was dissolved, too, because such a message may have been on its way. An id is
# in at most one bucket. Members are not obliged to use buckets.
#
# Order
# -----
# Bundles are numbered from 0 in each (generation, set); every member runs them in that order.
# Members and relays apply the fields of Schedule in the order in which the struct lists them
# (messages/wire/schedule_order.hpp): the meaning of ids before the messages about them, withdrawals before bundles,
# and `end` last. A schedule that is split into several (collectives/negotiation/paging.hpp) keeps that order across
# them. Most schedules go to all members; `ask`, and failures that concern only one member, go to that member.
# A repeated assignment of an id means that it was granted a cell; all else about it is unchanged.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farandole::wire");

using Departure = import "departure.capnp";

struct Signature {
  operation @0 :UInt8;
  dtype @1 :UInt8;
  reduceOp @2 :UInt8;
  root @3 :Int32;
  prescale @4 :Float64;
  postscale @5 :Float64;
  shape @6 :List(Int64);
  memory @7 :UInt8;
  # 0: host, 1: device.
}

struct Request {
  name @0 :Text;
  signature @1 :Signature;
  group @2 :UInt32;
  # 0, or the number of the grouped call, derived from its tensors' names (collectives/fusion/group.hpp), so it is the
  # same on every rank and in every step. A name whose group changes is sent in full again, as if its signature had
  # changed.
  groupSize @3 :UInt32;
  noFastPath @4 :Bool;
  # This member does not want a cell on the fast path for it. Members need not agree.
  device @5 :UInt8;
  # Which of the devices that this member uses in this set holds the tensor: 0 the first one, 1 the second one. 0 for
  # tensors in host memory. Members need not agree, but tensors move together only if each member has them on one
  # device. A name whose device changes is sent in full again.
  absent @6 :Bool;
  # This member contributes nothing.
}

struct Round {
  id @0 :UInt32;
  round @1 :UInt64;
}

struct Requests {
  ids @0 :List(UInt32);
  full @1 :List(Request);
  left @2 :List(Round);
  # Fast path rounds that this member will not publish.
  join @3 :Bool;
  # This member has no more data; zeros are used in its place until all members have joined.
  leaves @4 :Departure.Departure;
  # In the global set: this member leaves, which ends the generation in order. Null: it stays.
  withdraw @5 :List(Text);
  # Names that this member withdraws. A tensor that has been scheduled is not affected. Otherwise it fails with
  # `aborted`, at once on members where it is pending, and on the others when they request it, until every member has
  # requested it once.
  change @6 :SetChange;
  # In the global set: the requested change of process sets. Null: none.
  finished @7 :UInt64;
  # The number of bundles that this member's lane has finished; 0: not reported.
  faults @8 :List(SetFault);
  # In the global set: process sets of which this member's part has failed.
  buckets @9 :List(UInt32);
  # This member is ready for all ids of these buckets. Applied before `ids`.
  values @10 :List(InlineValue);
  # This member's inline tensors of some of `ids`.
}

struct InlineValue {
  id @0 :UInt32;
  bytes @1 :Data;
  # A whole tensor: a member's input, or the result.
}

struct SetFault {
  number @0 :UInt32;
  reason @1 :Text;
}

struct SetRestart {
  ended @0 :UInt32;
  # The number that ends.
  begins @1 :SetEvent;
  # Null: the set was being removed, or has already restarted.
  reason @2 :Text;
  givenUp @3 :Bool;
  # The set has failed too often: the generation ends with it.
}

struct RankRun {
  first @0 :Int32;
  count @1 :UInt32;
  # Global ranks first … first + count − 1. Runs ascend and do not touch.
}

struct GatheredIds {
  ids @0 :List(UInt32);
  ranks @1 :List(RankRun);
  # The members that requested the ids. Empty: every member of the set that is the sender or below it.
  }

struct GatheredRequest {
  what @0 :Request;
  ranks @1 :List(RankRun);
  # As above.
}

struct Apart {
  rank @0 :Int32;
  what @1 :Requests;
}

struct Gathered {
  ids @0 :List(GatheredIds);
  full @1 :List(GatheredRequest);
  apart @2 :List(Apart);
  # The parts of requests that cannot be merged, in the order of their arrival.
  buckets @3 :List(UInt32);
  # Every member of the set that is the sender or below it has requested all ids of these buckets. Applied before the
  # other fields.
}

struct SetChange {
  kind @0 :UInt8;
  id @1 :UInt32;
  # The set to remove.
  sets @2 :List(List(Int32));
  # Global ranks, in ascending order.
  ids @3 :List(UInt32);
  # For the sets of init(), if their ids are known in advance: the id of each set, or 0 for the set of all ranks. A
  # list that stands for the same set as an earlier one has the same id. Empty: the leader assigns the ids.
}

struct SetEvent {
  number @0 :UInt32;
  id @1 :UInt32;
  ends @2 :Bool;
  ranks @3 :List(Int32);
  # Global ranks, strictly ascending.
}

struct Assignment {
  id @0 :UInt32;
  name @1 :Text;
  cell @2 :Int64;
  cellBytes @3 :UInt32;
  signature @4 :Signature;
}

struct Entry {
  id @0 :UInt32;
  # 0: the entry is identified by its name only.
  name @1 :Text;
  # Empty if id is not 0.
  elements @2 :Int64;
  # Of one member's input, so that a joined member can supply zeros. allgather, alltoall: of all members together.
  firstDims @3 :List(Int64);
  # allgather: first extent on each rank, in rank order.
  rowElements @4 :Int64;
  # allgather: elements in one row.
}

struct Bundle {
  sequence @0 :UInt64;
  operation @1 :UInt8;
  dtype @2 :UInt8;
  reduceOp @3 :UInt8;
  root @4 :Int32;
  prescale @5 :Float64;
  postscale @6 :Float64;
  entries @7 :List(Entry);
  memory @8 :UInt8;
  devices @9 :List(UInt8);
  # Which of its devices each member has the tensors on, by rank in the set, as in Request. Empty: all members have
  # them on their first one, or in host memory.
  ordered @10 :Bool;
  # Devices may wait for other members while they work on it, so it counts in the order of launches.
  after @11 :List(SetLaunches);
  # Ordered bundles of other sets, with which this set has members in common, that the leader scheduled before. A
  # member launches this one when it has launched those of the sets to which it belongs.
}

struct SetLaunches {
  set @0 :UInt32;
  count @1 :UInt64;
  # The first `count` ordered bundles of the set.
}

struct Bucket {
  id @0 :UInt32;
  ids @1 :List(UInt32);
  patienceUs @2 :UInt32;
  # How long the ids may wait for each other, in microseconds.
}

struct Failure {
  name @0 :Text;
  kind @1 :UInt8;
  text @2 :Text;
}

struct Schedule {
  # In the order in which the parts are applied.
  assignments @0 :List(Assignment);
  dissolved @11 :List(UInt32);
  # Buckets that no longer exist.
  forget @1 :List(UInt32);
  retract @2 :List(Round);
  failures @3 :List(Failure);
  absent @16 :List(Text);
  # The names of tensors to which no member contributes: they have no result.
  ask @4 :List(UInt32);
  results @15 :List(InlineValue);
  # The results of tensors that every member has sent inline.
  bundles @5 :List(Bundle);
  buckets @12 :List(Bucket);
  # New buckets.
  joined @6 :Int32;
  # The rank that joined last, once all have; -1 otherwise.
  restarts @10 :List(SetRestart);
  # Process sets that have failed on some member.
  sets @9 :List(SetEvent);
  # The process sets that start and end, with `changed`.
  changed @8 :Bool;
  # The change of process sets that all members requested is done; `sets` lists its effects.
  departedRank @13 :Int32 = -1;
  departure @14 :Departure.Departure;
  # In the global set, with `end`: the member that left first, and how it left. Null and -1 otherwise.
  end @7 :Bool;
  # No more bundles follow in this generation and set.
}
