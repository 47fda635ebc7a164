"""How long Ferrite takes to build, without ccache: everything that a user builds, and again after
one operation was touched."""

import os
import subprocess
import sys
import tempfile
import time

import side_by_side as sbs

TOUCHED = sbs.ROOT / "ops" / "activation.cpp"
TEST = "test_ops"


def run(*command):
    """The seconds that the build took, without ccache; its output goes to stderr."""
    words = [str(word) for word in command]
    start = time.perf_counter()
    status = subprocess.run(words, cwd=sbs.ROOT, stdout=sys.stderr,
                            env=dict(os.environ, CCACHE_DISABLE="1")).returncode
    if status != 0:
        raise sbs.Lost(f"{' '.join(words)} ended with status {status}")
    return time.perf_counter() - start


def measure(args, part, save):
    jobs = len(os.sched_getaffinity(0))
    part.update(jobs=jobs, touched=str(TOUCHED.relative_to(sbs.ROOT)))
    with tempfile.TemporaryDirectory() as folder:
        part["configure_seconds"] = run("cmake", "--preset", "default", "-B", folder,
                                        "-DFERRITE_TESTS=OFF")
        part["clean_seconds"] = run("cmake", "--build", folder, "--parallel", jobs)
    save()
    run("cmake", "--build", args.build, "--target", TEST, "--parallel", jobs)
    TOUCHED.touch()
    part["touch_seconds"] = run("cmake", "--build", args.build, "--target", TEST, "--parallel", jobs)
    save()


def table(part):
    rows = [["configure", f"{part['configure_seconds']:.0f}"],
            ["library and examples, from scratch", f"{part['clean_seconds']:.0f}"]]
    if "touch_seconds" in part:
        rows.append([f"{TEST}, after {part['touched']} was touched", f"{part['touch_seconds']:.0f}"])
    return f"Without ccache, {part['jobs']} jobs:\n\n" + sbs.markdown(["build", "seconds"], rows)
