# What tools/setup builds and installs. `deliverables` is everything that a user calls. Component "python" is made for
# a site-packages folder (the packages and the native modules), component "commands" for the prefix above it (bin/, lib/).
# `python_package` is the part of it that a wheel holds.
add_custom_target(python_package)
foreach(target farandole_native ${FARANDOLE_KERNELS})
  if(TARGET ${target})
    add_dependencies(python_package ${target})
  endif()
endforeach()
add_custom_target(deliverables DEPENDS python_package)
foreach(target farandole_command farandole_gloo farandole_ccl)
  if(TARGET ${target})
    add_dependencies(deliverables ${target})
  endif()
endforeach()

# `horovodrun` is the same program: it looks at the name by which it was called.
if(TARGET farandole_command)
  install(TARGETS farandole_command RUNTIME DESTINATION bin COMPONENT commands)
  install(CODE [[
    file(CREATE_LINK farandole "${CMAKE_INSTALL_PREFIX}/bin/horovodrun" SYMBOLIC)
  ]] COMPONENT commands)
endif()
