@0xb7c05e19d2f4683a;
# Tests of the connections between the hosts of a job, before its workers start.
#
#   launcher → agent   TestAddresses     listen at these addresses, and dial those of other hosts
#   agent → launcher   AddressesTested   what has been found out since the last of these messages
#
# Each TestAddresses replaces the one before: the agent keeps the listeners that it names, opens those that are new, and
# closes the others. An empty one ends the test. The peers at both ends of a tested connection prove that they know the
# job's secret, as on every link, and then close it without sending any message.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farandole::wire");

struct TestedAddress {
  address @0 :Text;
  # Numeric, without a scope.
  port @1 :UInt16;
  problem @2 :Text;
  # Why the address cannot be used; empty: it can, or it was not tested yet.
}

struct TestAddresses {
  listen @0 :List(Text);
  # Addresses of this host, each with a port of its own.
  dial @1 :List(TestedAddress);
  # Addresses at which other hosts listen. Those that a previous message named are not dialled again.
  timeoutMilliseconds @2 :UInt32;
  # From the dial of an address to the proof of the secret.
}

struct AddressesTested {
  listening @0 :List(TestedAddress);
  # With the port of the listener, or the reason why there is none.
  dialled @1 :List(TestedAddress);
}
