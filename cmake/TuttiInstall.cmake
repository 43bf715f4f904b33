# What `cmake --install` puts where, and the Debian packages made from it: libtutti0 (the shared
# library), libtutti-dev (headers, CMake package, pkg-config file), tutti-tools (the command).
include(CMakePackageConfigHelpers)

# A static library needs its dependencies at the user's link; a shared one hides them.
get_target_property(library_type tutti TYPE)
if(library_type STREQUAL "STATIC_LIBRARY")
  set(TUTTI_IS_STATIC ON)
  set(TUTTI_PC_REQUIRES "Requires: fmt libsodium")
else()
  set(TUTTI_IS_STATIC OFF)
endif()

install(TARGETS tutti EXPORT tuttiTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT dev FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")

set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/tuttiConfig.cmake.in ${PROJECT_BINARY_DIR}/tuttiConfig.cmake
  INSTALL_DESTINATION ${cmake_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tuttiConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(EXPORT tuttiTargets NAMESPACE tutti:: DESTINATION ${cmake_dir} COMPONENT dev)
install(FILES ${PROJECT_BINARY_DIR}/tuttiConfig.cmake ${PROJECT_BINARY_DIR}/tuttiConfigVersion.cmake
        DESTINATION ${cmake_dir} COMPONENT dev)
# Relative to the .pc file, so that `cmake --install --prefix ELSEWHERE` stays right.
file(RELATIVE_PATH TUTTI_PC_PREFIX /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(${PROJECT_SOURCE_DIR}/cmake/tutti.pc.in ${PROJECT_BINARY_DIR}/tutti.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT dev)

set(components runtime dev)
if(TARGET tutti_command)
  install(TARGETS tutti_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  list(APPEND components tools)
endif()

# Debian packages: `make package`, or cpack in a build directory configured with prefix /usr.
set(package_runtime libtutti${PROJECT_VERSION_MAJOR})
set(package_dev libtutti-dev)
set(package_tools tutti-tools)
foreach(component ${components})
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE RENAME copyright
          DESTINATION share/doc/${package_${component}} COMPONENT ${component} EXCLUDE_FROM_ALL)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package_${component}})
  set(CPACK_DEBIAN_${upper}_FILE_NAME DEB-DEFAULT)
endforeach()
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_PACKAGE_NAME tutti)
set(CPACK_PACKAGE_CONTACT "tutti developers <tutti@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_OUTPUT_FILE_PREFIX ${PROJECT_BINARY_DIR}/packages)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "Shared library.")
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libtutti${PROJECT_VERSION_MAJOR} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEV_DESCRIPTION
    "Headers, CMake package and pkg-config file.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOOLS_DESCRIPTION "The command tutti.")
include(CPack)
