# What the compiler and the linker add against memory errors: checked calls of the C library and of containers, stack
# protectors, relocations that are read-only before main(), programs at random addresses. docs/guides/security.md says what
# they were measured to cost. The assertions of containers leave out what includes CAF (actors/CMakeLists.txt). Sanitizers check more and do not go with _FORTIFY_SOURCE.
option(FARANDOLE_HARDENED "build with the hardening flags of a release" ON)
if(FARANDOLE_HARDENED AND NOT FARANDOLE_SANITIZE AND NOT FARANDOLE_FUZZ)
  include(CheckPIESupported)
  check_pie_supported()
  # Some distributions' compilers define a lower level.
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-U_FORTIFY_SOURCE>)
  add_compile_options($<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-D_FORTIFY_SOURCE=3>)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fstack-protector-strong>)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-D_GLIBCXX_ASSERTIONS>)
  add_link_options(-Wl,-z,relro -Wl,-z,now)
endif()
