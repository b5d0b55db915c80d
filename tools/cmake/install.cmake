# What a wheel holds, which pyproject.toml names: component "python" is made for a site-packages folder (the native
# module, the modules that it loads, the kernels of frameworks; the Python files are added by the build backend), and
# component "commands" for the environment's bin/, lib/ and share/. `deliverables` builds all of it.
add_custom_target(deliverables)
foreach(target farandole_native farandole_command farandole_horovodrun farandole_reference farandole_gloo
        farandole_mpi farandole_ccl ${FARANDOLE_KERNELS})
  if(TARGET ${target})
    add_dependencies(deliverables ${target})
  endif()
endforeach()
