@0xac58efc7785e72a3;
# That a member's process makes progress, said again and again over the links between members on different hosts.
# Members on one host see it in memory that they share (collectives/transport/shm/heartbeat_words.hpp).
#
#   member → the members at the other ends of its links   Heartbeat  my event loop runs, and I miss a sign of life of these

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farandole::wire");

struct Heartbeat {
  silent @0 :List(Silence);
  # Not those of which the receiver has told the sender.
}

struct Silence {
  rank @0 :Int32;
  milliseconds @1 :UInt32;
  # For how long it has made no progress; more than fit count as the most that fit.
}
