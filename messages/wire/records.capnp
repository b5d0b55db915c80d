@0xe1b7c5409a3fd862;
# Copies of the workers' event records (messages/record), for a program that explains a job and for failures.
#
#   program → rendezvous   WriteRecords     write the records of all workers to files; the program knows the job's
#                                           secret, and is no member
#   rendezvous → program   RecordsWritten   they are written, or why not
#   launcher → agent       SendRecords      send the records of the processes that you have started
#   agent → launcher       RecordPart       a piece of one record
#   launcher → agent       RecordPartTaken  the piece is written: send the next one
#   agent → launcher       RecordsSent      all pieces were sent
#
# The launcher writes the files. If it runs apart from the rendezvous, the rendezvous forwards WriteRecords to it, with a
# number that identifies the requester, and RecordsWritten back.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farandole::wire");

# What to do with the records.
struct RecordOrder {
  action @0 :UInt8;
  # 0: copy them as they are; 1: begin to copy all later events, as a trace; 2: end the traces, and write them.
  steps @1 :UInt32;
  # With action 1: a rank's trace ends after so many of its training steps; 0: it does not end by itself.
  bytes @2 :UInt64;
  # With action 1: a rank's trace ends when it has so many bytes.
}

struct WriteRecords {
  wireVersion @0 :UInt32;
  # Must equal the receiver's exactly.
  folder @1 :Data;
  # Path of an existing folder on the launcher's host, in which there are no files yet.
  caller @2 :UInt64;
  order @3 :RecordOrder;
}

struct RecordsWritten {
  problem @0 :Text;
  # Why there are no files; empty otherwise.
  files @1 :UInt32;
  notices @2 :List(Text);
  # What is missing, such as the records of a host whose agent did not answer.
  caller @3 :UInt64;
}

struct SendRecords {
  request @0 :UInt32;
  # The number of the request within the job. A later request replaces an earlier one.
  order @1 :RecordOrder;
}

struct RecordPart {
  request @0 :UInt32;
  slot @1 :Int32;
  # The slot of the process, which distinguishes the records of a host.
  offset @2 :UInt64;
  # Of these bytes in the file. Bytes that no part contains are zero.
  bytes @3 :Data;
}

struct RecordPartTaken {
  request @0 :UInt32;
}

struct RecordsSent {
  request @0 :UInt32;
  problem @1 :Text;
  # Why records are missing; empty otherwise.
}
