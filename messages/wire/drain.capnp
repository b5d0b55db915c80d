@0xb6e27d904f1a53c8;
# How members of an elastic job leave by plan while it runs, at the next commit of all.
#
#   member → rendezvous    Leaving   my process was told to end
#   tool → rendezvous      Drain     these members are to leave; the tool knows the job's secret, and is no member
#   rendezvous → tool      Draining  twice: who leaves, or why nobody does; and, once their processes are gone, again
#
# The launcher decides who may leave. Where it runs apart, the rendezvous hands these on to it:
#
#   rendezvous → launcher  Leaving, with the slot; Drain, with the number of who asked
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
  # As the launcher names them.
  caller @3 :UInt64;
}

struct Leaver {
  rank @0 :Int32;
  # -1: no member yet.
  slot @1 :Int32;
  host @2 :Text;
}

struct Draining {
  problem @0 :Text;
  # Why nobody leaves; empty otherwise.
  leavers @1 :List(Leaver);
  allOut @2 :Bool;
  # Their processes have ended.
  caller @3 :UInt64;
}
