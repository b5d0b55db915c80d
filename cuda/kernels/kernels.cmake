# Compiles the kernels to a fat binary, if there is an nvcc, and adds them to `target`. HOROVOD_BUILD_CUDA_CC_LIST in
# the environment lists the compute capabilities, such as "80,90". PTX is for the lowest of them: the driver compiles
# it for GPUs of all later ones that are not in the list.
function(farandole_kernels target)
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/kernels)
  find_program(FARANDOLE_NVCC nvcc HINTS ENV HOROVOD_CUDA_HOME ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
  set(version 0)
  if(FARANDOLE_NVCC)
    execute_process(COMMAND ${FARANDOLE_NVCC} --version OUTPUT_VARIABLE text ERROR_QUIET)
    if(text MATCHES "release ([0-9]+\\.[0-9]+)")
      set(version ${CMAKE_MATCH_1})
    endif()
  endif()
  if(version VERSION_LESS 12.1) # the first with arguments of more than 4,096 bytes
    target_sources(${target} PRIVATE ${folder}/image_none.cpp)
    return()
  endif()

  string(REGEX MATCHALL "[0-9]+[af]?" capabilities "$ENV{HOROVOD_BUILD_CUDA_CC_LIST}")
  if(NOT capabilities)
    execute_process(COMMAND ${FARANDOLE_NVCC} --list-gpu-code OUTPUT_VARIABLE known)
    foreach(capability 80 90 100 120)
      if(known MATCHES "sm_${capability}\n")
        list(APPEND capabilities ${capability})
      endif()
    endforeach()
  endif()
  list(SORT capabilities COMPARE NATURAL)
  foreach(capability ${capabilities})
    list(APPEND codes -gencode arch=compute_${capability},code=sm_${capability})
  endforeach()
  list(GET capabilities 0 lowest)
  list(APPEND codes -gencode arch=compute_${lowest},code=compute_${lowest})

  set(image ${CMAKE_CURRENT_BINARY_DIR}/tensor_kernels.fatbin)
  add_custom_command(OUTPUT ${image}
    # No fused multiply-add: the bits have to be those of the host. ccache wants -c, which changes nothing, and would
    # keep the image for this build folder only.
    COMMAND env CCACHE_NOHASHDIR=1 ${CMAKE_CXX_COMPILER_LAUNCHER} ${FARANDOLE_NVCC}
      -c -fatbin -std=c++20 -O3 --fmad=false -Xptxas=--warn-on-spills -Xfatbin=-compress-all ${codes}
      -I ${PROJECT_SOURCE_DIR} -MD -MF ${image}.d -o ${image} ${folder}/tensor_kernels.cu
    DEPENDS ${folder}/tensor_kernels.cu DEPFILE ${image}.d
    COMMENT "Compiling the kernels for ${capabilities}" VERBATIM)
  list(JOIN capabilities ", " text)
  # The assembler reads the image, so the compiler does not see that the object depends on it.
  set_property(SOURCE ${folder}/image_built.cpp PROPERTY OBJECT_DEPENDS ${image})
  set(origin "CUDA ${version} for the compute capabilities ${text}")
  set_property(SOURCE ${folder}/image_built.cpp PROPERTY COMPILE_DEFINITIONS
    "FARANDOLE_KERNELS_FILE=\"${image}\"" "FARANDOLE_KERNELS_ORIGIN=\"${origin}\"")
  target_sources(${target} PRIVATE ${folder}/image_built.cpp)
endfunction()
