"""Conan 2 recipe of Ferrite, from this source tree: conan create packaging/conan --build=missing"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

required_conan_version = ">=2.0"


class FerriteConan(ConanFile):
    name = "ferrite"
    description = "Deep-learning training in C++20 and CUDA"
    license = "Apache-2.0"
    topics = ("deep-learning", "autograd", "cuda", "distributed-training")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "cuda": [True, False], "isa": ["ANY"]}
    default_options = {"shared": False, "cuda": False, "isa": "x86-64-v3"}

    @property
    def _root(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self._root, "core", "version.h"))
        self.version = ".".join(re.findall(r"^#define FERRITE_VERSION_[A-Z]+ (\d+)$", text, re.M))

    def export_sources(self):
        for name in ("CMakeLists.txt", "LICENSE", "ferrite.h", "version.h"):
            copy(self, name, self._root, self.export_sources_folder)
        for folder in ("cmake", "core", "kernels", "autograd", "ops", "nn", "optim", "parallel",
                       "data", "metrics", "tests/kit", "tests/emulator"):
            copy(self, folder + "/*", self._root, self.export_sources_folder)

    def config_options(self):
        if self.settings.arch != "x86_64":
            self.options.isa = "native"

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("fmt/10.2.1", transitive_headers=True)
        self.requires("eigen/3.4.0", visible=False)
        self.requires("nlohmann_json/3.11.3", visible=False)
        self.requires("pocketfft/cci.20240710", visible=False)
        self.requires("zlib/[>=1.2.11 <2]")
        self.requires("libdeflate/1.20")
        self.requires("libpng/[>=1.6 <2]")
        self.requires("libjpeg-turbo/[>=3.0 <4]")
        self.requires("openssl/[>=3 <4]")

    def build_requirements(self):
        self.tool_requires("cmake/[>=3.25 <5]")

    def validate(self):
        check_min_cppstd(self, 20)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        variables = toolchain.cache_variables
        variables["FERRITE_ISA"] = str(self.options.isa)
        variables["FERRITE_CUDA"] = "ON" if self.options.cuda else "OFF"
        for name in ("TESTS", "EXAMPLES", "GLOO", "HDF5", "ONNX"):
            variables["FERRITE_" + name] = "OFF"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        rmdir(self, os.path.join(self.package_folder, "share"))

    def package_info(self):
        # Ferrite's own package file for CMake defines the targets.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "ferrite")]
        self.cpp_info.set_property("pkg_config_name", "ferrite")
        self.cpp_info.defines = ["FERRITE_HAVE_CUDA=%d" % bool(self.options.cuda)]
        self.cpp_info.libs = ["ferrite_" + name for name in (
            "metrics", "parallel", "optim", "data", "nn", "ops", "autograd", "kernels", "core")]
        self.cpp_info.system_libs = ["pthread", "dl"]
