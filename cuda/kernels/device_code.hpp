// For the headers that both compilers read: that of kernels (nvcc), and that of the host. Such a header
// includes no other one of Farandole but those of this kind, and gives the same bits on both sides: it
// contracts no multiplication and addition, and uses no function of a mathematical library.
#pragma once

#ifdef __CUDACC__
#define FARANDOLE_HOST_DEVICE __host__ __device__
#else
#define FARANDOLE_HOST_DEVICE
#endif
