@0xa94c0d71be52f836;
# Hosts that get no new workers, or got none for some time. A launcher reports them to a rendezvous that runs apart
# from it, and the journal stores them.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farandole::wire");

struct FailedHost {
  name @0 :Text;
  times @1 :Int32;
  # How often the host was blacklisted. Each time it stays on the list longer.
  until @2 :Int64;
  # Milliseconds since 1970 by the wall clock, because another process must understand it. Past: it is off the list.
  forGood @3 :Bool;
}

struct Blacklist {
  hosts @0 :List(FailedHost);
  # By name, ascending.
}
