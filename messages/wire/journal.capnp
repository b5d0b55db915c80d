@0xe81d5b0397ac42f6;
# The records of a rendezvous's journal (elastic/journal_format.hpp defines their layout in the file). A record is a
# Job. A snapshot contains all of it. A change contains all of the job's own fields, and only those slots that differ
# from the state before it. Ids and their lifetimes are those of envelope.capnp. Fields may be added; the meaning of a
# field changes only with a new version of the file.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farandole::wire");

struct SlotRecord {
  slot @0 :Int32;
  inGeneration @1 :Bool;
  awaited @2 :Bool;
  retired @3 :Bool;
  ended @4 :Bool;
  lastRank @5 :Int32 = -1;
  endReason @6 :Text;
  host @7 :Text;
  # Identity. This field and those below are set only for a slot in the generation, and are empty otherwise.
  hostName @8 :Text;
  address @9 :Text;
  process @10 :Int64;
}

struct Job {
  epoch @0 :UInt64;
  launcher @1 :UInt64;
  # The launcher that owns the slots; 0: it is in the same process, or not known yet.
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
  slots @12 :List(SlotRecord);
  unused13 @13 :Bool;
  stateGeneration @14 :UInt64;
  # The newest training state of a member when the last generation began: the generation in which that member received
  # it; 0: no member had one.
}
