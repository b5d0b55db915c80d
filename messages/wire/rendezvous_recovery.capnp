@0xb7c2f0e94d6a1853;
# A rendezvous that went away and came back, and one that runs apart from the launcher.
#
#   member → rendezvous    Returning   first on a link that takes the place of one that ended: who I am, since when
#   rendezvous → member    Resumed     you are in as before; this is what you missed
#                      or  Lost        the generation has ended meanwhile
#                      or  Refused     you are none of this job's members; says why
#   anyone → rendezvous    Superseded  I have obeyed another rendezvous of this job, of a higher epoch: step down
#   launcher → rendezvous  Slots       first: every slot there ever was; then each that changes; and always the blacklist.
#                                      Saying it twice does no harm
#   rendezvous → launcher  Formed      these slots' members are a generation
#                      or  Refused     this rendezvous serves another job, or another launcher's; says why
#
# An epoch is one life of a rendezvous. Its upper half counts the lives that a journal has seen; its lower half is drawn
# anew for each, so that of two that were started from copies of a journal one is the higher.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farandole::wire");

using Blacklist = import "blacklist.capnp";

struct Returning {
  wireVersion @0 :UInt32;
  generation @1 :UInt64;
  rank @2 :Int32;
  slot @3 :Int32;
  host @4 :Text;
  # Host identity, as in the hello.
  process @5 :Int64;
  epoch @6 :UInt64;
  # The highest that this member has obeyed.
}

struct Resumed {
  generation @0 :UInt64;
  epoch @1 :UInt64;
  changes @2 :UInt64;
  # As the count of Changed: how many wait for the end of the generation.
  removalsOnly @3 :Bool;
}

struct Superseded {
  epoch @0 :UInt64;
}

struct Slot {
  number @0 :Int32;
  retired @1 :Bool;
  ended @2 :Bool;
  how @3 :Text;
  # "was killed by signal 9".
}

struct Slots {
  wireVersion @0 :UInt32;
  job @1 :UInt64;
  # Drawn by the launcher: one rendezvous serves one launcher's job.
  epoch @2 :UInt64;
  slots @3 :List(Slot);
  complete @4 :Bool;
  # No other will be started any more.
  failed @5 :List(Blacklist.FailedHost);
  # All hosts on the launcher's blacklist, or that were on it, whatever the slots are.
}

struct Formed {
  generation @0 :UInt64;
  epoch @1 :UInt64;
  slots @2 :List(Int32);
  # By rank.
}
