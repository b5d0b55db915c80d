@0xac58efc7785e72a3;
# A member's periodic report that its process makes progress, over the links between members on different hosts.
# Members on one host observe each other's progress in shared memory (collectives/transport/shm/heartbeat_words.hpp).
#
#   member → the members at the other ends of its links   Heartbeat  the sender's event loop runs; it misses a sign of
#                                                                    life of the listed members
#   member → the member above it in the tree of relays    Clock      a question: what time is it?
#   member → a member below it                            Clock      the answer, which is sent at once

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farandole::wire");

struct Heartbeat {
  silent @0 :List(Silence);
  # Without those that the receiver itself reported to the sender.
}

struct Silence {
  rank @0 :Int32;
  milliseconds @1 :UInt32;
  # The time without progress; a longer time than the field can hold is sent as its maximum.
}

# Times are readings of the steady clock (CLOCK_MONOTONIC) in nanoseconds, which may be negative in a time namespace.
struct Clock {
  asked @0 :Int64;
  # When the question was sent, by the clock of the member that asks.
  isAnswer @1 :Bool;
  received @2 :Int64;
  # Of an answer: when the question arrived, by the clock of the member that answers.
  sent @3 :Int64;
  # Of an answer: when it was sent, by the same clock.
}
