# An overlay port that builds the source tree it lies in:
#   vcpkg install ferrite --overlay-ports=<tree>/packaging/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS
    FEATURES
        cuda FERRITE_CUDA
        gloo FERRITE_GLOO
        hdf5 FERRITE_HDF5
)
# Packages may go to other machines than this one, by a binary cache.
set(ISA native)
if(VCPKG_TARGET_ARCHITECTURE STREQUAL "x64")
    set(ISA x86-64-v3)  # AVX2
elseif(VCPKG_TARGET_ARCHITECTURE STREQUAL "arm64")
    set(ISA armv8-a)
endif()
vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        ${FEATURE_OPTIONS}
        -DFERRITE_ISA=${ISA}
        -DFERRITE_ONNX=OFF
        -DFERRITE_TESTS=OFF
        -DFERRITE_EXAMPLES=OFF
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/ferrite)
vcpkg_fixup_pkgconfig()
vcpkg_copy_tools(TOOL_NAMES ferrite-run ferrite-inspect AUTO_CLEAN)

file(REMOVE_RECURSE
    "${CURRENT_PACKAGES_DIR}/debug/include"
    "${CURRENT_PACKAGES_DIR}/debug/share"
    "${CURRENT_PACKAGES_DIR}/share/doc"
)
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
