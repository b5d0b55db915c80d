# farandole_unit_test(NAME library… ) builds NAME_test.cpp files that sit beside their code into one Catch2
# runner per folder and registers it with CTest under the label "unit".
function(farandole_unit_tests target)
  if(NOT FARANDOLE_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${target} ${arg_SOURCES} ${PROJECT_SOURCE_DIR}/tests/catch_main.cpp)
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} Threads::Threads)
  add_test(NAME ${target} COMMAND ${target})
  set_tests_properties(${target} PROPERTIES LABELS unit TIMEOUT 300)
endfunction()
