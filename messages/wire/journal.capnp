@0xe81d5b0397ac42f6;
# What a rendezvous keeps in its journal (elastic/journal_format.hpp tells how records lie in the file). A record is a
# Job: all of it in a snapshot; in a change the job's own fields, and of the seats only those that differ from what came
# before. Ids and their lifetimes are those of envelope.capnp. Fields may be added; none changes its meaning without
# another version of the file.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farandole::wire");

struct Seat {
  slot @0 :Int32;
  inGeneration @1 :Bool;
  awaited @2 :Bool;
  retired @3 :Bool;
  ended @4 :Bool;
  lastRank @5 :Int32 = -1;
  endReason @6 :Text;
  host @7 :Text;
  # Identity, and the rest below: of a seat that is in; empty otherwise.
  hostName @8 :Text;
  address @9 :Text;
  process @10 :Int64;
}

struct Job {
  epoch @0 :UInt64;
  launcher @1 :UInt64;
  # Whose slots these are; 0: of a launcher in the same process, or not known yet.
  size @2 :Int32;
  least @3 :Int32;
  most @4 :Int32;
  elastic @5 :Bool;
  running @6 :Bool;
  removalsOnly @7 :Bool;
  lostSomebody @8 :Bool;
  generation @9 :UInt64;
  changes @10 :UInt64;
  slotsByRank @11 :List(Int32);
  seats @12 :List(Seat);
  unused13 @13 :Bool;
  stateGeneration @14 :UInt64;
  # The newest training state that a member of the last generation had when it began, by the generation in which that
  # member was brought to it; 0: none had any.
}
