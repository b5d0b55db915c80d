# oneCCL is linked into a module of its own, a plugin path that is loaded when a job asks for it. The module is
# built only if oneCCL's static library is available. FARANDOLE_CCL_ROOT is a folder with
# - include/: the headers of the wheel oneccl-devel;
# - lib/: the CPU-only libccl.a of that wheel, and the libraries of the wheel intel-cmplr-lib-rt.
# `tools/setup --with-ccl` creates such a folder.
set(FARANDOLE_CCL_ROOT "" CACHE PATH "folder with oneCCL's include/ and lib/")
find_path(CCL_INCLUDE oneapi/ccl.hpp HINTS ${FARANDOLE_CCL_ROOT}/include)
find_library(CCL_LIBRARY libccl.a HINTS ${FARANDOLE_CCL_ROOT}/lib)
find_library(CCL_INTLC NAMES libintlc.so.5 HINTS ${FARANDOLE_CCL_ROOT}/lib)
find_library(CCL_IMF imf HINTS ${FARANDOLE_CCL_ROOT}/lib)
find_library(CCL_HWLOC NAMES hwloc libhwloc.so.15)
if(CCL_INCLUDE AND CCL_LIBRARY AND CCL_INTLC AND CCL_IMF AND CCL_HWLOC)
  add_library(farandole_ccl MODULE ccl/ccl_module.cpp ccl/ccl_end.cpp ccl/ccl_start.cpp ccl/itt_none.c)
  target_include_directories(farandole_ccl SYSTEM PRIVATE ${CCL_INCLUDE})
  target_link_libraries(farandole_ccl PRIVATE ${CCL_LIBRARY} ${CCL_INTLC} ${CCL_IMF} ${CCL_HWLOC} Threads::Threads
    ${CMAKE_DL_LIBS})
  get_filename_component(libraries ${CCL_INTLC} DIRECTORY)
  set(exports ${CMAKE_CURRENT_SOURCE_DIR}/ccl/exports.map)
  target_link_options(farandole_ccl PRIVATE -Wl,--version-script=${exports})
  set_target_properties(farandole_ccl PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python/farandole LINK_DEPENDS ${exports}
    BUILD_RPATH "$ORIGIN;${libraries}" INSTALL_RPATH "$ORIGIN;${libraries}")
  # The module is searched for in the folder of the library or program that loads it, and in ../lib/ relative to it.
  foreach(folder collectives/transport tools/farandole)
    add_custom_command(TARGET farandole_ccl POST_BUILD COMMAND ${CMAKE_COMMAND} -E create_symlink
      $<TARGET_FILE:farandole_ccl> ${PROJECT_BINARY_DIR}/${folder}/$<TARGET_FILE_NAME:farandole_ccl>)
  endforeach()
  install(TARGETS farandole_ccl LIBRARY DESTINATION farandole COMPONENT python)
  install(TARGETS farandole_ccl LIBRARY DESTINATION ${FARANDOLE_PREFIX_DIR}/lib COMPONENT commands)
  install(TARGETS farandole_ccl LIBRARY DESTINATION lib COMPONENT c)
else()
  list(FILTER tests EXCLUDE REGEX "/ccl_test\\.cpp$")
endif()
