"""Compares the port of packaging/vcpkg with the build: its options, and the packages that it depends on."""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What the build looks for, and the port that has it.
PORTS = {"fmt": "fmt", "Eigen3": "eigen3", "Pocketfft": "pocketfft", "ZLIB": "zlib", "Deflate": "libdeflate",
         "PNG": "libpng", "JPEG": "libjpeg-turbo", "nlohmann_json": "nlohmann-json", "OpenSSL": "openssl"}
BACKENDS = {"FERRITE_CUDA": "cuda", "FERRITE_GLOO": "gloo", "FERRITE_HDF5": "hdf5", "FERRITE_ONNX": "onnx"}
# These need packages that the port does not depend on.
OFF = ["FERRITE_TESTS", "FERRITE_EXAMPLES"]


def text(path):
    return (ROOT / path).read_text()


def names(dependencies):
    """Of packages for the target; those marked as host build it."""
    return {d if isinstance(d, str) else d["name"] for d in dependencies if isinstance(d, str) or not d.get("host")}


def main():
    portfile = re.sub(r"#.*", "", text("packaging/vcpkg/ferrite/portfile.cmake"))
    manifest = json.loads(text("packaging/vcpkg/ferrite/vcpkg.json"))
    features = manifest.get("features", {})
    options = re.findall(r"^(?:option\(|set\((?=.* CACHE ))(\w+)", text("cmake/FerriteOptions.cmake"), re.M)
    # Those for tests and programs are required under conditions, in lines that are indented.
    required = set(re.findall(r"^ferrite_require\((\w+)", text("cmake/FerriteDependencies.cmake"), re.M)) - {"Threads"}

    errors = []
    given = dict(re.findall(r"-D(\w+)=(\S+)", portfile))
    block = re.search(r"\bFEATURES\s+([^)]*)\)", portfile)
    by_feature = dict(zip(*[iter(block[1].split() if block else [])] * 2))  # feature: option
    for option in [*given, *by_feature.values()]:
        if option not in options and not option.startswith("CMAKE_"):
            errors.append(f"portfile.cmake sets {option}, which cmake/FerriteOptions.cmake does not have")
    for feature in by_feature.keys() - features.keys():
        errors.append(f"portfile.cmake has the feature {feature}, vcpkg.json does not")
    for option in OFF:
        if given.get(option) != "OFF":
            errors.append(f"portfile.cmake does not set {option}=OFF")
    for option, port in BACKENDS.items():
        feature = next((f for f, o in by_feature.items() if o == option), None)
        if feature and port not in names(features.get(feature, {}).get("dependencies", [])):
            errors.append(f"vcpkg.json: the feature {feature} does not depend on {port}, which {option} needs")
        if not feature and given.get(option) != "OFF":
            errors.append(f"{option} is neither a feature nor OFF: it would depend on what else is installed")
    ports = {PORTS.get(package, f"what has {package} (PORTS)") for package in required}
    dependencies = names(manifest["dependencies"])
    errors += [f"vcpkg.json does not depend on {p}, which the build requires" for p in sorted(ports - dependencies)]
    errors += [f"vcpkg.json depends on {p}, which the build does not look for" for p in sorted(dependencies - ports)]
    if errors:
        sys.exit("\n".join(errors))
    print(f"{len(given) + len(by_feature)} options, {len(dependencies)} dependencies and {len(features)} features agree")


if __name__ == "__main__":
    main()
