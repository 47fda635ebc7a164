"""Conan 2 recipe of Ferrite, from this source tree: conan create packaging/conan --build=missing

The libraries that Ferrite uses come from Conan's remotes, without Gloo and the components hdf5 and onnx. With the
option system_libs all of them come from apt, by the list of scripts/install_packages.sh.
"""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir
from conan.tools.system.package_manager import Apt

required_conan_version = ">=2.0"


class FerriteConan(ConanFile):
    name = "ferrite"
    description = "Deep-learning training in C++20 and CUDA"
    license = "Apache-2.0"
    topics = ("deep-learning", "autograd", "cuda", "distributed-training")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "cuda": [True, False], "isa": ["ANY"], "system_libs": [True, False]}
    default_options = {"shared": False, "cuda": False, "isa": "x86-64-v3", "system_libs": False}

    @property
    def _root(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self._root, "core", "version.h"))
        self.version = ".".join(re.findall(r"^#define FERRITE_VERSION_[A-Z]+ (\d+)$", text, re.M))

    def export(self):
        copy(self, "install_packages.sh", os.path.join(self._root, "scripts"), self.export_folder)

    def export_sources(self):
        for name in ("CMakeLists.txt", "LICENSE", "ferrite.h", "version.h"):
            copy(self, name, self._root, self.export_sources_folder)
        for folder in ("cmake", "core", "kernels", "autograd", "ops", "nn", "optim", "parallel",
                       "data", "metrics", "tests/kit", "tests/emulator"):
            copy(self, folder + "/*", self._root, self.export_sources_folder)

    def config_options(self):
        if self.settings.arch != "x86_64":
            self.options.isa = "armv8-a" if self.settings.arch == "armv8" else "native"

    def layout(self):
        cmake_layout(self)

    def system_requirements(self):
        if self.options.system_libs:
            script = os.path.join(self.recipe_folder, "install_packages.sh")  # from export()
            if not os.path.exists(script):
                script = os.path.join(self._root, "scripts", "install_packages.sh")
            names = re.search(r"^packages=\((.*?)\)", load(self, script), re.M | re.S)[1].split()
            jpeg = "libjpeg62-turbo-dev"
            others = ("libcli11-dev", "doctest-dev", jpeg)  # the first two for programs and tests
            Apt(self).install([name for name in names if name.endswith("-dev") and name not in others])
            Apt(self).install_substitutes([jpeg], ["libjpeg-turbo8-dev"])  # Ubuntu's name

    def requirements(self):
        if self.options.system_libs:
            return
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
        if not self.options.system_libs:
            self.tool_requires("cmake/[>=3.25 <5]")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("Ferrite needs Linux")
        check_min_cppstd(self, 20)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        variables = toolchain.cache_variables
        variables["FERRITE_ISA"] = str(self.options.isa)
        variables["FERRITE_CUDA"] = "ON" if self.options.cuda else "OFF"
        variables["FERRITE_TESTS"] = variables["FERRITE_EXAMPLES"] = "OFF"
        for name in ("GLOO", "HDF5", "ONNX"):
            variables["FERRITE_" + name] = "ON" if self.options.system_libs else "OFF"
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
        # Ferrite's own package file for CMake defines the targets. Other generators get them from here.
        self.cpp_info.set_property("cmake_find_mode", "none")
        # ferrite-run and ferrite-inspect, beside static libraries too
        self.runenv_info.prepend_path("PATH", os.path.join(self.package_folder, "bin"))
        ferrite = self._component("ferrite", (
            "metrics", "parallel", "optim", "data", "nn", "ops", "autograd", "kernels", "core"))
        ferrite.builddirs = [os.path.join("lib", "cmake", "ferrite")]
        ferrite.defines = ["FERRITE_HAVE_CUDA=%d" % bool(self.options.cuda)]
        ferrite.system_libs = ["pthread", "dl"]
        if not self.options.system_libs:
            ferrite.requires = ["fmt::fmt", "zlib::zlib", "libdeflate::libdeflate", "libpng::libpng",
                                "libjpeg-turbo::libjpeg-turbo", "openssl::crypto"]
            return
        ferrite.system_libs.append("fmt")
        hdf5 = self._component("hdf5", ("hdf5",))
        onnx = self._component("onnx", ("onnx", "onnx_file"))
        if not self.options.shared:
            ferrite.system_libs += ["z", "deflate", "png", "jpeg", "crypto", "gloo"]
            hdf5.system_libs = ["hdf5_serial"]
            onnx.system_libs = ["onnx_proto", "protobuf"]

    def _component(self, name, libraries):
        component = self.cpp_info.components[name]
        component.libs = ["ferrite_" + library for library in libraries]
        if name == "ferrite":
            component.set_property("pkg_config_name", "ferrite")
        else:
            component.set_property("pkg_config_name", "ferrite-" + name)
            component.requires = ["ferrite"]
        return component
