/// How TensorFlow is told that an asynchronous kernel has done its work.
#pragma once

#include <dlfcn.h>

#include <functional>

#include "bindings/kernels/tensorflow/api.hpp"

namespace farandole::tensorflow {

/// The callback that TensorFlow hands to an asynchronous kernel is the address of a std::function that lives only
/// until the compute function returns (tensorflow/c/kernels.cc), although it is to be called later. So it is
/// copied. If the object does not look like libstdc++'s std::function, as may happen in a later version, the
/// address itself is kept.
class completion {
public:
  explicit completion(TF_AsyncOpKernelDoneCallback* given) {
    static const bool is_function = looks_like_function(given);
    if (is_function)
      copy_ = *reinterpret_cast<const std::function<void()>*>(given);
    else
      given_ = given;
  }

  /// TensorFlow may free the node and everything of it before this returns.
  void tell() {
    tf().TF_RunAsyncOpKernelDoneCallback(given_ ? given_
                                                : reinterpret_cast<TF_AsyncOpKernelDoneCallback*>(&copy_));
  }

private:
  static bool looks_like_function(const void* given) {
    // Two words of the callable, then two functions that lie in some loaded library.
    void* const* words = static_cast<void* const*>(given);
    Dl_info entry;
    return dladdr(words[2], &entry) != 0 && dladdr(words[3], &entry) != 0;
  }

  std::function<void()> copy_;
  TF_AsyncOpKernelDoneCallback* given_ = nullptr;
};

} // namespace farandole::tensorflow
