# With -DCMAKE_UNITY_BUILD=ON, the files of a folder are compiled together, in the groups of tools/source_groups.py. A whole
# build then takes a fraction of the time, and a changed file takes its group with it: right for builds that only run
# tests. The release build compiles each file by itself, so that each includes what it uses.
function(farandole_group_sources folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL "UTILITY")
      set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
    endif()
  endforeach()
  if(targets)
    foreach(entry IN LISTS ARGN)
      string(REGEX MATCH "^([^=]+)=(.+)$" matched ${entry})
      set_source_files_properties(${PROJECT_SOURCE_DIR}/${CMAKE_MATCH_2} DIRECTORY ${folder}
        PROPERTIES UNITY_GROUP ${CMAKE_MATCH_1})
    endforeach()
  endif()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(inner IN LISTS folders)
    farandole_group_sources(${inner} ${ARGN})
  endforeach()
endfunction()

if(CMAKE_UNITY_BUILD)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/source_groups.py
    OUTPUT_VARIABLE groups OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" groups "${groups}")
  farandole_group_sources(${PROJECT_SOURCE_DIR} ${groups})
  # A new declaration may need other groups.
  file(GLOB_RECURSE read CONFIGURE_DEPENDS messages/*.?pp collectives/*.?pp elastic/*.?pp cuda/*.?pp actors/*.?pp
    bindings/*.?pp tools/*.?pp tests/*.?pp)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${read} tools/source_groups.py)
endif()
