# Catch2's runner takes longer to compile than most tests: once for all. It limits the time of each case.
function(farandole_catch_main)
  if(NOT TARGET farandole_catch_main)
    add_library(farandole_catch_main OBJECT ${PROJECT_SOURCE_DIR}/tests/catch_main.cpp
      ${PROJECT_SOURCE_DIR}/tests/case_limit.cpp)
  endif()
endfunction()

# The limit of a whole runner. Usually the limit of a case (tests/case_limit.hpp) ends a stuck runner and names the case;
# this limit ends a runner that cannot do so itself. ThreadSanitizer makes the tests many times slower.
function(farandole_stuck_after target seconds)
  if(FARANDOLE_THREADS)
    math(EXPR seconds "6 * ${seconds}")
  endif()
  set_tests_properties(${target} PROPERTIES TIMEOUT ${seconds})
endfunction()

# farandole_defines_path(TARGET NAME PATH) defines a path of this checkout, for tests that declare
# `extern const char NAME[];`. It has a file of its own, because an object that contains such a path cannot come from the
# compiler cache of another checkout.
function(farandole_defines_path target name path)
  if(TARGET ${target})
    file(GENERATE OUTPUT ${name}.cpp CONTENT "extern const char ${name}[];\nconst char ${name}[] = \"${path}\";\n")
    target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  endif()
endfunction()

# farandole_unit_tests(TARGET SOURCES file… LIBRARIES library…) builds the NAME_test.cpp files that sit beside their
# code into one Catch2 runner per folder and registers it with CTest under the label "unit".
function(farandole_unit_tests target)
  if(NOT FARANDOLE_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  farandole_catch_main()
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} farandole_catch_main Threads::Threads)
  add_test(NAME ${target} COMMAND ${target})
  set_tests_properties(${target} PROPERTIES LABELS unit)
  farandole_stuck_after(${target} 1200)
endfunction()
