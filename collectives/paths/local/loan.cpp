#include "collectives/paths/local/loan.hpp"

#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "collectives/paths/waiting/lock_free.hpp"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

namespace farandole {

lender::lender() : beacon_(std::make_unique<beacon>()) {
  const auto got = getrandom(beacon_->nonce, sizeof beacon_->nonce, 0);
  assert(got == static_cast<ssize_t>(sizeof beacon_->nonce));
}

lender::~lender() {
  withdraw();
}

lender_card lender::card() const {
  return {getpid(), reinterpret_cast<std::uintptr_t>(beacon_.get()), {beacon_->nonce[0], beacon_->nonce[1]}};
}

void lender::lend(std::uint64_t loan) {
  beacon_->loan.store(loan, std::memory_order_relaxed);
  order_word_before_foreign_bytes<machine_atomics>();
}

bool borrower::reaches() const {
  return holds(0);
}

int borrower::look(lender::beacon& seen) const {
  order_bytes_before_word<machine_atomics>();
  return copy(other_.beacon, std::as_writable_bytes(std::span(&seen, 1)));
}

int borrower::copy(std::uint64_t from, std::span<std::byte> to) const {
  while (!to.empty()) {
    const iovec here{to.data(), to.size()};
    const iovec there{reinterpret_cast<void*>(static_cast<std::uintptr_t>(from)), to.size()};
    const ssize_t got = process_vm_readv(static_cast<pid_t>(other_.process), &here, 1, &there, 1, 0);
    if (got <= 0)
      return got < 0 ? errno : EFAULT;
    from += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got)); // a page that cannot be had ends it early
  }
  return 0;
}

bool borrower::holds(std::uint64_t loan) const {
  lender::beacon seen;
  return look(seen) == 0 && std::memcmp(seen.nonce, other_.nonce, sizeof seen.nonce) == 0 &&
         seen.loan.load(std::memory_order_relaxed) == loan;
}

bool borrower::lives() const {
  lender::beacon seen;
  return look(seen) == 0 && std::memcmp(seen.nonce, other_.nonce, sizeof seen.nonce) == 0;
}

descriptor borrower::fetch(int number) const {
  const descriptor process(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(other_.process), 0)));
  if (!process)
    return {};
  descriptor copy(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), number, 0)));
  return lives() ? std::move(copy) : descriptor(); // else it is another process's by now
}

bool can_be_lent(std::span<const std::byte> memory) {
  if (memory.empty())
    return true;
  std::byte seen[2];
  const iovec here{seen, sizeof seen};
  const auto at = [&](std::size_t index) {
    return iovec{const_cast<std::byte*>(memory.data() + index), 1}; // read only, but the call has no const
  };
  const iovec there[] = {at(0), at(memory.size() - 1)};
  return process_vm_readv(getpid(), &here, 1, there, 2, 0) == static_cast<ssize_t>(sizeof seen);
}

} // namespace farandole
