# Every header must compile alone. One that some source includes before anything else does so in the ordinary build.
# For each of the others, `headers_alone` compiles a generated file that includes it and nothing else; being ordinary
# objects, they are compiled again only when something they include has changed.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
  messages/*.hpp collectives/*.hpp elastic/*.hpp cuda/*.hpp actors/*.hpp
  bindings/*.hpp bindings/*.h tools/*.hpp tests/*.hpp)
file(GLOB_RECURSE sources CONFIGURE_DEPENDS
  messages/*.cpp collectives/*.cpp elastic/*.cpp cuda/*.cpp actors/*.cpp bindings/*.cpp tools/*.cpp)
set(shown)
list(FILTER sources EXCLUDE REGEX "_test\\.cpp$") # they are compiled in groups
foreach(source ${sources})
  file(STRINGS ${source} first REGEX "^#include" LIMIT_COUNT 1)
  if(first MATCHES "^#include \"(.*)\"")
    list(APPEND shown ${CMAKE_MATCH_1})
  endif()
endforeach()
list(REMOVE_ITEM headers ${shown})
set(alone)
foreach(header ${headers})
  if(header MATCHES "^bindings/native/" AND NOT TARGET farandole_native)
    continue()
  endif()
  if(header STREQUAL "collectives/transport/ccl/ccl_end.hpp" AND NOT TARGET farandole_ccl)
    continue()
  endif()
  set(source ${PROJECT_BINARY_DIR}/headers_alone/${header}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n" @ONLY)
  list(APPEND alone ${source})
endforeach()
add_library(headers_alone OBJECT EXCLUDE_FROM_ALL ${alone})
target_compile_options(headers_alone PRIVATE -O0 -U_FORTIFY_SOURCE) # which needs optimization
add_dependencies(headers_alone farandole_schemas)
foreach(library messages math negotiation transport elastic cuda actors cxx c)
  if(TARGET farandole_${library})
    target_link_libraries(headers_alone PRIVATE farandole_${library})
  endif()
endforeach()
if(TARGET farandole_ccl)
  target_include_directories(headers_alone SYSTEM PRIVATE ${CCL_INCLUDE})
endif()
if(TARGET farandole_native)
  target_link_libraries(headers_alone PRIVATE nanobind-static)
endif()
