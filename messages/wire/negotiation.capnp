@0xe7a40c1f93b25d68;
# When may a tensor move? When every member of the set has asked for it, with signatures that agree.
#
#   member → leader    Requests   what this member is ready for
#   leader → members   Schedule   what moves now, in which order, and what was decided besides
#
# Names and ids
# -------------
# A tensor is known by its name until the leader has seen it. With the first bundle that carries it, the leader
# assigns an id to (name, signature); from then on both sides send the id. An id is never used for anything else
# within its generation. The leader may forget an id (its cache is bounded, or ranks no longer agree): who waits under
# it, and whoever sends it afterwards, is told so by `ask`, and sends the full request of what it has pending under that
# id (nothing, if nothing is). Members drop ids told to them in `forget`: they send them no more, but still
# answer an `ask` for what is pending. No bundle names an id after its `forget`.
#
# The fast path
# ---------
# An assignment may grant a cell on the fast path (`cell` is its offset in every member's fast path area, -1 for none).
# From then on, members on the one host publish this tensor there, in rounds counted from 0 per id, and the leader
# hears nothing of it. A member that cannot go on so (it joined, or its signature changed) says in `left` which round
# it will not publish; the leader answers everyone with `retract`, and a member that waits on the fast path in just that
# round takes its cell back and sends a full request. An id that was retracted is forgotten. A member that joins while
# it waits on the fast path in a round that is not complete gives that round up itself: it takes its cell back, says so in
# `left`, and sends the full request before `join`. So the others may come to this tensor whenever they like.
# Of an alltoall or an allgather a member publishes a notice instead of the tensor (`cellBytes` is the notice's), and the
# others copy what is for them out of its memory; then each publishes in its cell that it has (collectives/transport/shm/
# notice.hpp).
# A cell serves those that wait. A member whose callers only leave callbacks, or do not wait at once for what is copied out
# of their memory, says `seatless` in its full request, and an id
# that any member has asked for so is granted no cell as long as it lives. A member that has been granted one all the
# same, because it asked otherwise before, leaves it as above.
#
# What travels of which operation
# -------------------------------
# Members reduce-scatter tensors of one shape: each knows from its own which rows become whose (the first extent divided
# by the members; the first of them get one row more until nothing remains), so a bundle says no more of them than of an
# allreduce's. In an alltoall the members' first extents differ and so does how they deal their rows out; the leader
# compares the rest of the shape and hears nothing of the dealing. The members tell each other on the data path, just
# before the tensor's own bytes, so one id serves however the rows are dealt. A bundle holds one alltoall at most.
#
# Process sets
# ------------
# All members of the job change the table of process sets together, in the global set (0): each sends `change`, and has
# at most one in flight. When all have, the leader answers everyone: with `changed` and what starts and ends in `sets`,
# or with a failure of the name "farandole.process_sets". A set has two numbers. Its id is what people see; ids of removed sets
# are used again, the oldest first. Its number stands in envelopes; it counts up and is never used again within the
# generation, so a late message of a removed set cannot be taken for one of its successor. Requests of every set go to
# the leader of the global set, which answers its members only. A set that ends gets a last Schedule with `end`.
# Where part of a set fails on a member, that member says so in `faults`, in the global set. The leader answers everyone
# in the global set's schedule: the set ends at once on all its members, whatever is pending in it, and starts anew under
# its id with the next number. So the number is the set's epoch: what comes for an old one is dropped. Of several members
# that report the same number the first is heard; to the others, and where the set had been removed already, the answer
# is that the old number ends and nothing begins.
# Where the leader is no member of a set, the set's first member tells it how many bundles are done (`finished`): what
# goes out together depends on how much is on its way.
#
# Inline values
# -------------
# In a set whose members are on several hosts and all speak with the leader themselves, a small tensor that is reduced
# may travel with the request for its id (`values`). Where all members have sent it so, the leader reduces it and answers
# with the result (`results`) instead of a bundle: one round trip, and no data path. Where a member has not, because it
# joined or sent more than a message carries inline, the leader drops what came and the tensor travels in a bundle.

# Relays
# ------
# In a job of many hosts, members do not all speak with the leader: the first rank of each host is its relay (on the
# leader's own host the second), and relays have relays above them (collectives/relay/relay_tree.hpp). What members send is put together on its way up:
#
#   relay → its parent  Gathered   what the relay and the members below it are ready for
#
# A relay sends an id, or a full request, once all members below it have asked so or have joined, and what waits for
# others only after a while; so the leader still learns who is late. Whatever else a member says travels as it was said.
# What a relay sends is taken in the order of the struct. Schedules go down the same tree as they are.
#
# Buckets
# -------
# Ids that come together step after step are planned together: the leader tells all of a bucket, which has a number that
# is never used again within its generation and set, its ids and how long they may wait for each other. From then on a
# member keeps an id of it until it is ready for all of its ids, and then sends the bucket's number instead of them; and
# so does a relay with what all members below it have asked for. What cannot wait any longer goes up as ids, and goes
# ahead of whatever must not overtake it: `left`, `join`, `leaves`, `withdraw`, `change` and `faults`. To the leader
# and to relays above, a bucket from below says just what its ids would say, also for a while after it was dissolved: such word may
# have been on its way. An id is in one bucket at most; nobody is obliged to make use of one.
#
# Order
# -----
# Bundles are numbered from 0 in each (generation, set); every member runs them in that order.
# The fields of Schedule stand in the order in which members and relays apply them (messages/wire/schedule_order.hpp): what
# ids mean comes before what is said of them, what is taken back before what moves, and the last word last. A schedule
# that is cut into several (collectives/negotiation/paging.hpp) keeps that order across them.
# Most schedules go to all members; `ask`, and failures that concern one member alone, go to that member.
# An id that is assigned again has been granted a cell; all else about it is as before.

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
}

struct Request {
  name @0 :Text;
  signature @1 :Signature;
  group @2 :UInt32;
  # 0, or the number of the grouped call: made from its tensors' names (collectives/fusion/group.hpp), so it is the same
  # on every rank and in every step. A name whose group changes is sent in full again, as if its signature had changed.
  groupSize @3 :UInt32;
  seatless @4 :Bool;
  # This member wants no cell for it. Members need not agree.
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
  # This member has no more data; zeros stand in for it until all have joined.
  leaves @4 :Departure.Departure;
  # In the global set. This member leaves, and with it the generation ends in order. Null: it stays.
  withdraw @5 :List(Text);
  # Names that this member takes back. If the tensor has not been scheduled it fails `aborted`, at once where it is
  # pending and on arrival elsewhere, until every member has asked for it once; if it has, nothing happens.
  change @6 :SetChange;
  # In the global set. Null: none.
  finished @7 :UInt64;
  # Bundles that this member's lane has finished; 0 when it has nothing to say of them.
  faults @8 :List(SetFault);
  # In the global set.
  buckets @9 :List(UInt32);
  # This member is ready for all their ids. Taken before `ids`.
  values @10 :List(InlineValue);
  # This member's tensors of some of `ids`.
}

struct InlineValue {
  id @0 :UInt32;
  bytes @1 :Data;
  # All of one tensor: a member's own, or what all members' come to.
}

struct SetFault {
  number @0 :UInt32;
  reason @1 :Text;
}

struct SetRestart {
  ended @0 :UInt32;
  # Number.
  begins @1 :SetEvent;
  # Null: the set was being removed, or has started anew already.
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
  # Empty: every member of the set that is the sender or below it.
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
  # What cannot be put together, in the order in which it came.
  buckets @3 :List(UInt32);
  # Every member of the set that is the sender or below it has asked for all their ids. Taken before the rest.
}

struct SetChange {
  kind @0 :UInt8;
  id @1 :UInt32;
  # Which set is removed.
  sets @2 :List(List(Int32));
  # Global ranks, in ascending order.
  ids @3 :List(UInt32);
  # Of the sets of init(), where their ids are known before: each set's own, or 0 for that of all ranks; a list that
  # stands for the same set as an earlier one has the same id. Empty: the leader gives the ids.
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
  # 0 when the entry is known by name only.
  name @1 :Text;
  # Empty when id is not 0.
  elements @2 :Int64;
  # Of one member's input; lets a joined member stand in. allgather, alltoall: of all members' together.
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
  # Buckets that are no more.
  forget @1 :List(UInt32);
  retract @2 :List(Round);
  failures @3 :List(Failure);
  ask @4 :List(UInt32);
  results @15 :List(InlineValue);
  # Of tensors that every member has sent inline.
  bundles @5 :List(Bundle);
  buckets @12 :List(Bucket);
  # New ones.
  joined @6 :Int32;
  # The rank that joined last, once all have; -1 otherwise.
  restarts @10 :List(SetRestart);
  # Sets that have failed on some member.
  sets @9 :List(SetEvent);
  # What starts and ends, with `changed`.
  changed @8 :Bool;
  # The change of process sets that all members had asked for is done, as `sets` says.
  departedRank @13 :Int32 = -1;
  departure @14 :Departure.Departure;
  # In the global set, with `end`: the member that left first, and how. Null and -1 otherwise.
  end @7 :Bool;
  # No bundle follows in this generation and set.
}
