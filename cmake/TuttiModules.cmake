# tutti_module(NAME SOURCES ... [LINK ...] [TESTS ...] [TEST_LINK ...])
#   One object library per module; all of them make up the library `tutti` and the internal static
#   library that tests link, because the shared library hides its internals.
#   TESTS: unit tests that stand beside the sources; one executable per module, label `unit`.
function(tutti_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;TESTS;TEST_LINK" ${ARGN})
  add_library(tutti_${name} OBJECT ${ARG_SOURCES})
  target_include_directories(tutti_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(tutti_${name} PRIVATE tutti_flags ${ARG_LINK})
  set_property(GLOBAL APPEND PROPERTY TUTTI_MODULES tutti_${name})
  set_property(TARGET tutti_${name} PROPERTY TUTTI_LINK "${ARG_LINK}")
  if(BUILD_TESTING AND ARG_TESTS)
    add_executable(${name}_test ${ARG_TESTS})
    target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(${name}_test PRIVATE tutti_flags tutti_internal GTest::gtest_main ${ARG_TEST_LINK})
    gtest_discover_tests(${name}_test TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST
                         PROPERTIES LABELS unit TIMEOUT 60)
  endif()
endfunction()

# tutti_collect(OUT_OBJECTS OUT_LINKS MODULE...)
#   The object files of the modules named, and every library that they need.
function(tutti_collect out_objects out_links)
  set(objects)
  set(links)
  foreach(module ${ARGN})
    list(APPEND objects $<TARGET_OBJECTS:${module}>)
    get_target_property(needed ${module} TUTTI_LINK)
    list(APPEND links ${needed})
  endforeach()
  list(REMOVE_DUPLICATES links)
  set(${out_objects} ${objects} PARENT_SCOPE)
  set(${out_links} ${links} PARENT_SCOPE)
endfunction()

# tutti_test(NAME SOURCES ... [LINK ...] [LABEL label] [TIMEOUT seconds] [ARGS ...] [WHOLE] [SERIAL])
#   A test program outside the modules: one ctest entry per gtest case unless WHOLE is given.
#   Programs of several ranks (any label but unit, property and fuzz) count as two processors, so
#   that `ctest -j2` runs one of them at a time. SERIAL, and the labels faults and timing: nothing
#   else runs beside it, because it measures or bounds time.
function(tutti_test name)
  cmake_parse_arguments(ARG "WHOLE;SERIAL" "LABEL;TIMEOUT" "SOURCES;LINK;ARGS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set(properties LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT})
  if(NOT ARG_LABEL MATCHES "^(unit|property|fuzz)$")
    list(APPEND properties PROCESSORS 2)
  endif()
  if(ARG_SERIAL OR ARG_LABEL MATCHES "^(faults|timing)$")
    list(APPEND properties RUN_SERIAL ON)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE tutti_flags tutti_internal GTest::gtest ${ARG_LINK})
  if(ARG_WHOLE)
    add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
    set_tests_properties(${name} PROPERTIES ${properties})
  else()
    gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST
                         PROPERTIES ${properties})
  endif()
endfunction()
