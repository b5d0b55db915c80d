@0x9d1be5a7c4f86230;
# Membership. The messages in the life of a member:
#
#   member → rendezvous   Hello          once per init(): the sender's identity and address
#   rendezvous → member   Welcome        once all members of the generation have said hello: ranks and addresses
#                     or  Refused        the sender of the hello cannot be part of the job, with the reason
#   rendezvous → member   Awaited        while a member waits for its Welcome: members that have not said hello yet
#   member → leader       Greeting       first message on a link to a leader: the rank of the sender
#   member → leader       PathAddresses  the path addresses of the sender (for example ADDRESS:PORT of tcp)
#   leader → members      MemberPathAddresses  the path addresses of all members, once all have sent theirs
#   rendezvous → member   Lost           a member is lost; the generation ends for all
#   rendezvous → member   Changed        elastic jobs: members wait to join, or some are to leave; the generation
#                                        continues until all members leave it together, at a commit
#   member → rendezvous   Farewell       the sender leaves on purpose (shutdown); not a loss
#
# The launcher gives a member its slot, which never changes. A rank belongs to a generation.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farandole::wire");

using Departure = import "departure.capnp";

struct Hello {
  wireVersion @0 :UInt32;
  # Must equal the receiver's exactly.
  slot @1 :Int32;
  # The number that the launcher gave to this process; its rank in the first generation.
  size @2 :Int32;
  # The number of members that this process was told to expect.
  host @3 :Text;
  # Host identity: boot id plus IPC and network namespace. Equal text means that memory can be shared.
  hostName @4 :Text;
  # For messages to users.
  address @5 :Text;
  # "1.2.3.4:567": the address of this member's listener.
  process @6 :Int64;
  # Process id on its host, for messages to users.
  epoch @7 :UInt64;
  # The highest epoch of a rendezvous that this member has obeyed; 0: none.
  progress @8 :UInt64;
  # Elastic jobs: the progress of this member's training state. Members with different numbers must sync.
  keepsSets @9 :Bool;
  # Elastic jobs: this process continues with the previous generation's process sets; false: it founds sets anew.
  sets @10 :List(KeptSet);
  # The sets that it continues with; their members are slots.
  stateGeneration @11 :UInt64;
  # Elastic jobs: the generation in which this process last received the training state of the others, or trained from
  # its own; 0: it has no state.
}

struct KeptSet {
  born @0 :UInt64;
  # The generation in which the set was added; 0: it was given to init(). `born`, `byRule` and `place` together
  # identify the set within the job.
  byRule @1 :Bool;
  # A function selects the members.
  place @2 :UInt32;
  # Index among the sets of init() (by ranks or by rule), or among the changes of process sets in its generation.
  id @3 :UInt32;
  # Shown to users; the same in every generation.
  members @4 :List(Int32);
  # Strictly ascending; empty for a set by rule, and only then.
}

struct Host {
  identity @0 :Text;
  name @1 :Text;
}

struct Member {
  slot @0 :Int32;
  host @1 :UInt32;
  # Index in the list of hosts.
  address @2 :Text;
}

struct Setting {
  name @0 :Text;
  value @1 :Text;
}

struct Roster {
  # The part of a Welcome that is the same for all members of a generation. Local and cross ranks follow from the
  # hosts.
  generation @0 :UInt64;
  epoch @1 :UInt64;
  hosts @2 :List(Host);
  # In the order of their first members.
  members @3 :List(Member);
  # In rank order.
  settings @4 :List(Setting);
  # Job-wide values; they take precedence over the member's own.
  mustSync @5 :Bool = true;
  # The members do not all have the same state at the same step, because a member is new or was lost.
  setsKept @6 :Bool;
  # Members of the previous generation continue with its process sets, which are those of `sets`. Further sets given
  # to init() are ignored. False: all members found their sets anew.
  sets @7 :List(KeptSet);
  # The sets that continue, by id; their members are ranks.
}

struct Welcome {
  rank @0 :Int32;
  # The receiver's own rank.
  joinedLate @1 :Bool;
  # The receiver joins a job that has run without it.
  roster @2 :Data;
  # A separate message, whose root is a Roster, so that the rendezvous encodes it once for all members.
}

struct Refused {
  reason @0 :Text;
  dismissed @1 :Bool;
  # By plan: the job continues without this process, which should end in order.
  culprit @2 :Int32 = -1;
  # The slot of the ended process because of which this one is refused; -1: none.
}

struct Awaited {
  waitedSeconds @0 :UInt32;
  # Since the first member began to wait.
  arrived @1 :UInt32;
  # Members that have said hello.
  size @2 :UInt32;
  # Minimum number of members of the generation.
  report @3 :Bool;
  # The receiver informs the user; true for one of the waiting members.
  missing @4 :List(AwaitedMember);
  # By slot, strictly ascending; only the first few.
}

struct AwaitedMember {
  slot @0 :Int32;
  host @1 :Text;
  # Its name, for messages to users; empty if it is not known.
}

struct Lost {
  generation @0 :UInt64;
  rank @1 :Int32;
  # -1: the generation ends for another reason than the loss of a member.
  reason @2 :Text;
  # "was killed by signal 9", to follow "rank 2 on host a".
  stuck @3 :Bool;
  # Elastic jobs: its process makes no progress. The next generation does not wait for it.
}

struct Changed {
  generation @0 :UInt64;
  count @1 :UInt64;
  # The number of changes that wait for the end of this generation; from 1, and never decreases.
  removalsOnly @2 :Bool;
  # All changes are departures: no process waits to join.
}

struct Farewell {
  generation @0 :UInt64;
  departedRank @1 :Int32 = -1;
  departure @2 :Departure.Departure;
  # The member whose departure ended the generation, and how it left; it may be the sender.
  interrupted @3 :Bool;
  # The sender is another member, and its pending operations failed.
}

struct Greeting {
  wireVersion @0 :UInt32;
  rank @1 :Int32;
}

struct PathAddresses {
  rank @0 :Int32;
  paths @1 :List(PathAddress);
  # The paths that this member has opened and that have an address.
}

struct PathAddress {
  path @0 :Text;
  # Its name in the table of paths: "tcp", "gloo".
  address @1 :Data;
  # The argument of connect() of this path on the other members:
  # - tcp: ADDRESS:PORT
  # - ucx: a worker address
  # - a library: any bytes
  # - local: where the member offers the shared memory of its host
  # - hierarchical: the address of local, a line break, and ADDRESS:PORT for the members of its cross-host group
}

struct MemberPathAddresses {
  members @0 :List(PathAddresses);
  # In rank order.
}
