@0x9d1be5a7c4f86230;
# Who is in. A member's life, as messages:
#
#   member → rendezvous   Hello        once per init(): who am I, where can I be reached
#   rendezvous → member   Welcome      once all members of the generation have said hello: ranks, addresses
#                     or  Refused      this hello cannot be part of the job; says why
#   rendezvous → member   Awaited      while a member waits for its Welcome: which members have not said hello yet
#   member → leader       Greeting     first message on a link to a leader: which member is calling
#   member → leader       Path addresses how my data paths can be reached (ADDRESS:PORT of tcp, the name of a window)
#   leader → members      Path addresses  everyone's, once all have come
#   rendezvous → member   Lost         a member is gone; the generation ends for all
#   rendezvous → member   Changed      elastic jobs: members wait to come in, or some are to leave; nothing ends until
#                                      all members leave the generation together, at a commit
#   member → rendezvous   Farewell     I leave on purpose (shutdown); not a loss
#
# A member's slot is where the launcher put it and never changes; its rank belongs to a generation.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farandole::wire");

using Departure = import "departure.capnp";

struct Hello {
  wireVersion @0 :UInt32;
  # Must equal the receiver's exactly.
  slot @1 :Int32;
  # The launcher's number of this process; the rank of the first generation.
  size @2 :Int32;
  # How many members this process was told to expect.
  host @3 :Text;
  # Host identity: boot id plus IPC and network namespace. Equal text means that memory can be shared.
  hostName @4 :Text;
  # For people.
  address @5 :Text;
  # "1.2.3.4:567": where this member's own listener can be reached.
  process @6 :Int64;
  # Process id on its host, for messages to people.
  epoch @7 :UInt64;
  # Highest rendezvous epoch this member has obeyed; 0 if none.
  progress @8 :UInt64;
  # Elastic jobs: where this member's training state stands. Members of different numbers must sync.
  keepsSets @9 :Bool;
  # Elastic jobs: this process goes on with the process sets of the generation before; false: it founds sets anew.
  sets @10 :List(KeptSet);
  # Those; their members are slots.
  stateGeneration @11 :UInt64;
  # Elastic jobs: the generation in which this process was last brought to the training state of the others, or trained
  # from its own; 0: it has none.
}

struct KeptSet {
  born @0 :UInt64;
  # Born, by rule and place tell the set from every other of the job. The generation in which it was added; 0: it was
  # given to init().
  byRule @1 :Bool;
  # A function says who is in.
  place @2 :UInt32;
  # Among the sets of init(), of ranks or by rule; among the changes of process sets in its generation.
  id @3 :UInt32;
  # For people; the same in every generation.
  members @4 :List(Int32);
  # Strictly ascending; empty of a set by rule only.
}

struct Host {
  identity @0 :Text;
  name @1 :Text;
}

struct Member {
  slot @0 :Int32;
  host @1 :UInt32;
  # Place in the list of hosts.
  address @2 :Text;
}

struct Setting {
  name @0 :Text;
  value @1 :Text;
}

struct Roster {
  # All that the members of a generation are told alike. Local and cross ranks follow from who is on which host.
  generation @0 :UInt64;
  epoch @1 :UInt64;
  hosts @2 :List(Host);
  # In the order of their first members.
  members @3 :List(Member);
  # In rank order.
  settings @4 :List(Setting);
  # Job-wide values; they win over the member's own.
  mustSync @5 :Bool = true;
  # Members do not all stand at the same step with the same state: somebody is new, or somebody was lost.
  setsKept @6 :Bool;
  # Members of the generation before are in and go on with its process sets: there are these, and what anybody gives to
  # init() besides does not count. False: all found their sets anew.
  sets @7 :List(KeptSet);
  # Those, by id; their members are ranks.
}

struct Welcome {
  rank @0 :Int32;
  # The receiver's own rank.
  joinedLate @1 :Bool;
  # The receiver comes to a job that has run without it.
  roster @2 :Data;
  # A message of its own, whose root is a Roster: whoever welcomes many encodes it once.
}

struct Refused {
  reason @0 :Text;
  dismissed @1 :Bool;
  # By plan: the job goes on without this process, which should end in order.
  culprit @2 :Int32 = -1;
  # The slot of a process that has ended, because of which there is no place for this one; -1: none.
}

struct Awaited {
  waitedSeconds @0 :UInt32;
  # Since the first member began to wait.
  arrived @1 :UInt32;
  # Members that have said hello.
  size @2 :UInt32;
  # Members that the generation needs at least.
  report @3 :Bool;
  # The receiver tells the user; true for one of those that wait.
  missing @4 :List(AwaitedMember);
  # By slot, strictly ascending; the first few of them.
}

struct AwaitedMember {
  slot @0 :Int32;
  host @1 :Text;
  # Its name, for people; empty if it is not known.
}

struct Lost {
  generation @0 :UInt64;
  rank @1 :Int32;
  # -1 when the generation ends for a reason that is no member's loss.
  reason @2 :Text;
  # "was killed by signal 9", to follow "rank 2 on host a".
  stuck @3 :Bool;
  # Elastic jobs: its process makes no progress. The next generation does not wait for it.
}

struct Changed {
  generation @0 :UInt64;
  count @1 :UInt64;
  # How many changes wait for the end of this generation; counts from 1 and only grows.
  removalsOnly @2 :Bool;
  # Nobody waits to come in.
}

struct Farewell {
  generation @0 :UInt64;
  departedRank @1 :Int32 = -1;
  departure @2 :Departure.Departure;
  # The member that left first, by which the generation ended, and how; it may be the sender.
  interrupted @3 :Bool;
  # The sender is another one, and had operations pending, which failed.
}

struct Greeting {
  wireVersion @0 :UInt32;
  rank @1 :Int32;
}

struct Introduction {
  rank @0 :Int32;
  paths @1 :List(PathAddress);
  # Of the paths that this member has opened and that have something to tell.
}

struct PathAddress {
  path @0 :Text;
  # Its name in the table of paths: "tcp", "gloo".
  address @1 :Data;
  # What its connect() takes at the other members: ADDRESS:PORT of tcp, a worker's address of ucx, anything of a library.
  # Of local where the host's window is offered; of hierarchical that, a line break, and ADDRESS:PORT for the members of
  # equal place on other hosts.
}

struct Introductions {
  members @0 :List(Introduction);
  # In rank order.
}
