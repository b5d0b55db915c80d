# What tools/setup builds and installs. `deliverables` is everything that a user calls. Component "python" is made for
# a site-packages folder (the packages and the native modules), component "commands" for the prefix above it (bin/, lib/).
add_custom_target(deliverables)
foreach(target farandole_native farandole_command farandole_gloo farandole_ccl)
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
