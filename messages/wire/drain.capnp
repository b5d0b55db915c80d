@0xb6e27d904f1a53c8;
# Planned departures of members from a running elastic job, at the next commit of all members.
#
#   member → rendezvous    Leaving   the sender's process was told to end
#   tool → rendezvous      Drain     these members are to leave; the tool knows the job's secret, and is no member
#   rendezvous → tool      Draining  sent twice: first the leavers, or why no member leaves; and again when the
#                                    leavers' processes have ended
#
# The launcher decides which members may leave. If it runs apart from the rendezvous, the rendezvous forwards these
# messages:
#
#   rendezvous → launcher  Leaving, with the slot; Drain, with a number that identifies the requester
#   launcher → rendezvous  Draining, with the same number

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farandole::wire");

struct Leaving {
  generation @0 :UInt64;
  slot @1 :Int32 = -1;
}

struct Drain {
  wireVersion @0 :UInt32;
  # Must equal the receiver's exactly.
  ranks @1 :List(Int32);
  hosts @2 :List(Text);
  # Host names as the launcher uses them.
  caller @3 :UInt64;
}

struct Leaver {
  rank @0 :Int32;
  # -1: not a member yet.
  slot @1 :Int32;
  host @2 :Text;
}

struct Draining {
  problem @0 :Text;
  # Why no member leaves; empty otherwise.
  leavers @1 :List(Leaver);
  allOut @2 :Bool;
  # The leavers' processes have ended.
  caller @3 :UInt64;
}
