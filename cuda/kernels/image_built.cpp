// CMake defines FARANDOLE_KERNELS_FILE, the fat binary that nvcc made, and FARANDOLE_KERNELS_ORIGIN.
#include "cuda/kernels/kernel_image.hpp"

asm(".pushsection .rodata.farandole_kernels, \"a\", @progbits\n"
    ".balign 64\n"
    ".hidden farandole_kernels_begin\n"
    ".globl farandole_kernels_begin\n"
    "farandole_kernels_begin:\n"
    ".incbin \"" FARANDOLE_KERNELS_FILE "\"\n"
    ".hidden farandole_kernels_end\n"
    ".globl farandole_kernels_end\n"
    "farandole_kernels_end:\n"
    ".popsection\n");

extern "C" __attribute__((visibility("hidden"))) const std::byte farandole_kernels_begin[];
extern "C" __attribute__((visibility("hidden"))) const std::byte farandole_kernels_end[];

namespace farandole {

kernel_image built_kernels() {
  return {{farandole_kernels_begin, farandole_kernels_end}, FARANDOLE_KERNELS_ORIGIN};
}

} // namespace farandole
