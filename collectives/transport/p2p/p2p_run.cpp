#include "collectives/transport/p2p/p2p_run.hpp"

#include "collectives/math/reduce.hpp"

namespace farandole {

void exchange_run::enter(message_phase phase, std::size_t piece) const {
  if (watch)
    watch(phase, piece);
  transport.look();
}

void exchange_run::reduce_into(std::byte* output, std::span<const std::byte* const> inputs,
                               std::size_t bytes) const {
  if (bytes != 0)
    reduce(bundle.dtype, bundle.reduce_op, output, inputs, bytes / element, bundle.prescale, bundle.postscale,
           static_cast<std::size_t>(members));
}

} // namespace farandole
