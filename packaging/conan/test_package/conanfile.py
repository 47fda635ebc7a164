import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class FerriteTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        # Below the build folder of the tree, which git ignores.
        cmake_layout(self, build_folder=os.path.join("..", "..", "..", "build", "conan"))

    @property
    def _components(self):
        # What find_package(ferrite) has beside ferrite::ferrite.
        return ["hdf5", "onnx"] if self.dependencies["ferrite"].options.system_libs else []

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        toolchain.cache_variables["COMPONENTS"] = ";".join(self._components)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        folder = self.cpp.build.bindir
        self.run(os.path.join(folder, "train"), env="conanrun")
        arguments = {"hdf5": "missing.h5", "onnx": "lenet.onnx"}
        for component in self._components:
            self.run(os.path.join(folder, component) + " " + os.path.join(folder, arguments[component]), env="conanrun")
        for tool in ("ferrite-run", "ferrite-inspect"):
            self.run(tool + " --version", env="conanrun")
