@0xa94c0d71be52f836;
# Hosts that get no new workers, or had a time when they got none: what a launcher reports to a rendezvous that runs
# apart from it, and what stands in the journal.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farandole::wire");

struct FailedHost {
  name @0 :Text;
  times @1 :Int32;
  # How often it came on the list: each time it stays longer.
  until @2 :Int64;
  # Milliseconds since 1970, by the clock on the wall, for another process has to understand it. Past: it is off the list.
  forGood @3 :Bool;
}

struct Blacklist {
  hosts @0 :List(FailedHost);
  # By name, ascending.
}
