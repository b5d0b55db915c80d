@0xb7c2f0e94d6a1853;
# The messages for the recovery of a rendezvous, and for a rendezvous that runs apart from the launcher.
#
#   member → rendezvous    Returning   first message on a link that replaces a lost one: the sender and its generation
#   rendezvous → member    Resumed     the receiver is a member as before; the changes that it missed
#                      or  Lost        the generation has ended meanwhile
#                      or  Refused     the receiver is not a member of this job, with the reason
#   process → rendezvous   Superseded  the sender has obeyed a rendezvous of this job with a higher epoch: step down
#   launcher → rendezvous  Slots       first all slots that ever existed, then each slot that changes; always with the
#                                      whole blacklist. Idempotent
#   rendezvous → launcher  Formed      the members of these slots form a generation
#                      or  Refused     this rendezvous serves another job, or another launcher, with the reason
#
# An epoch is one life of a rendezvous. Its upper half counts the lives that a journal has seen. Its lower half is
# drawn at random for each life, so that of two rendezvous that were started from copies of one journal, one has the
# higher epoch.

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
  # The highest epoch that this member has obeyed.
}

struct Resumed {
  generation @0 :UInt64;
  epoch @1 :UInt64;
  changes @2 :UInt64;
  # The number of changes that wait for the end of the generation, as in Changed.
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
  # Drawn at random by the launcher, because a rendezvous serves the job of one launcher only.
  epoch @2 :UInt64;
  slots @3 :List(Slot);
  complete @4 :Bool;
  # No more slots will be started.
  failed @5 :List(Blacklist.FailedHost);
  # All hosts that are or were on the launcher's blacklist, regardless of `slots`.
}

struct Formed {
  generation @0 :UInt64;
  epoch @1 :UInt64;
  slots @2 :List(Int32);
  # By rank.
}
