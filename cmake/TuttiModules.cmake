# tutti_module(NAME SOURCES ... [LINK ...] [TESTS ...])
#   One object library per module; all of them make up the library `tutti` and the internal static
#   library that tests link, because the shared library hides its internals.
#   TESTS: unit tests that stand beside the sources; one executable per module, label `unit`.
function(tutti_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;TESTS;TEST_LINK" ${ARGN})
  add_library(tutti_${name} OBJECT ${ARG_SOURCES})
  target_include_directories(tutti_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(tutti_${name} PRIVATE tutti_flags ${ARG_LINK})
  set_property(GLOBAL APPEND PROPERTY TUTTI_MODULES tutti_${name})
  set_property(GLOBAL APPEND PROPERTY TUTTI_LINKS ${ARG_LINK})
  if(BUILD_TESTING AND ARG_TESTS)
    add_executable(${name}_test ${ARG_TESTS})
    target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(${name}_test PRIVATE tutti_flags tutti_internal GTest::gtest_main ${ARG_TEST_LINK})
    gtest_discover_tests(${name}_test TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST
                         PROPERTIES LABELS unit TIMEOUT 60)
  endif()
endfunction()

# tutti_test(NAME SOURCES ... [LINK ...] [LABEL label] [TIMEOUT seconds] [ARGS ...])
#   A test program outside the modules: one ctest entry per gtest case unless WHOLE is given.
function(tutti_test name)
  cmake_parse_arguments(ARG "WHOLE" "LABEL;TIMEOUT" "SOURCES;LINK;ARGS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE tutti_flags tutti_internal GTest::gtest ${ARG_LINK})
  if(ARG_WHOLE)
    add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT})
  else()
    gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST
                         PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT})
  endif()
endfunction()
