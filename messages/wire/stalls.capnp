@0xd49e1b6f20c7a853;
# Tensors that some ranks have submitted and others have not for longer than the stall warning time.
#
#   member → rendezvous    Stalls        of one process set: all of them, or none when the stall is over. Only the leader
#                                        of the set, and the first member on a host for its fast path, send it
#   rendezvous → members   StallReport   the job's one report, for callbacks

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farandole::wire");

struct StalledTensor {
  name @0 :Text;
  waited @1 :UInt64;
  # Nanoseconds since the first rank submitted it.
  missing @2 :List(Int32);
  # Global ranks, ascending.
}

struct Stalls {
  source @0 :UInt8;
  # 0: the leader; 1: the fast path. Each reports its own tensors.
  tensors @1 :List(StalledTensor);
  # Those that have waited longest, longest first.
  count @2 :UInt32;
  # Of all stalled tensors, which may be more.
}

struct StallReport {
  text @0 :Text;
  # Lines for users.
  over @1 :Bool;
  # The stall is over.
}
