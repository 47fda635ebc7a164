#!/usr/bin/env python3
"""Tests of scripts/gpu_check.sh and pack_gpu_check.sh: with programs that do what they are told to, so
without a GPU; and, for the build folder that is given, a test of CUDA code on whatever devices it has."""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = None

COUNTS = """#!/bin/sh
echo "$0 $*" >>{log}
{then}
"""


class Visit(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.log = self.root / "log"
        self.build = self.root / "fake"
        (self.build / "bin").mkdir(parents=True)

    def tearDown(self):
        self.folder.cleanup()

    def program(self, name, then="true"):
        path = self.build / "bin" / name
        path.write_text(COUNTS.format(log=self.log, then=then))
        path.chmod(0o755)

    def list_of_tests(self, command):
        (self.build / "CTestTestfile.cmake").write_text(
            f'add_test(a "{command[0]}" ' + " ".join(f'"{c}"' for c in command[1:]) + ')\n'
            'set_tests_properties(a PROPERTIES LABELS "cuda")\n')

    def visit(self, *arguments, out="out", root=ROOT, **environment):
        environment = {**os.environ, "BUILD": str(self.build), "OUT": str(self.root / out),
                       "CASES": "1", **environment}
        done = subprocess.run([root / "scripts" / "gpu_check.sh", *arguments], env=environment,
                              capture_output=True, text=True, timeout=200, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout + done.stderr

    def steps(self, part, out="out"):
        with tarfile.open(self.root / out / f"{part}.tar.gz") as archive:
            lines = archive.extractfile(f"{part}/steps").read().decode().splitlines()
            self.names = set(archive.getnames())
        return {line.split()[0]: line.split(": ", 1)[1] for line in lines}

    def called(self, program):
        text = self.log.read_text() if self.log.exists() else ""
        return sum(f"/{program} " in line for line in text.splitlines())

    def prepare(self):
        self.program("bench_kernels", "exit 0")
        self.program("bench_ledger", "exit 3")
        self.program("test_parallel", "sleep 100")
        self.program("counted")
        self.list_of_tests([self.build / "bin" / "counted"])

    def test_a_step_that_fails_or_lasts_does_not_stop_the_others(self):
        self.prepare()
        status, text = self.visit("tests", "figures", "checks", LIMIT_nccl="1")
        self.assertEqual(status, 1, text)
        self.assertEqual(self.steps("tests"), {"info": "ok", "cuda": "ok"}, text)
        self.assertIn("tests/cuda.xml", self.names)
        self.assertEqual(self.steps("figures"), {
            "kernels": "ok", "ledger": "failed (3)", "resnet": "left out: no bench_training",
            "lenet": "left out: no bench_training"}, text)
        self.assertIn("figures/kernels.log", self.names)
        checks = self.steps("checks")
        self.assertEqual(checks["nccl"], "out of time", text)
        self.assertEqual(checks["memcheck"], "left out: no test_kernels", text)

    def test_a_second_visit_goes_on_where_the_first_ended(self):
        self.prepare()
        self.visit("figures", "tests")
        self.program("bench_ledger")
        status, text = self.visit("figures", "tests", "--after", self.root / "out", out="second")
        self.assertEqual(status, 0, text)
        self.assertEqual(self.called("bench_kernels"), 1)
        self.assertEqual(self.called("counted"), 1)
        self.assertEqual(self.called("bench_ledger"), 2)
        self.assertEqual(self.steps("figures", "second")["ledger"], "ok")
        self.assertIn("figures/kernels.log", self.names)
        self.visit("kernels", "--again", out="second")
        self.assertEqual(self.called("bench_kernels"), 2)

    def test_no_step_begins_without_time_for_it(self):
        self.prepare()
        status, text = self.visit("--seconds", "20", "kernels", "nccl", LIMIT_kernels="4")
        self.assertEqual(status, 0, text)
        self.assertEqual(self.steps("figures"), {"kernels": "ok"}, text)
        self.assertIn("nccl           not started", text)
        self.assertEqual(self.called("test_parallel"), 0)

    def test_a_step_ends_with_the_visit(self):
        self.prepare()
        status, text = self.visit("--seconds", "7", "nccl", LIMIT_nccl="8")
        self.assertEqual(status, 1, text)
        self.assertEqual(self.steps("checks"), {"nccl": "out of time"}, text)

    def test_parts_fit_nine_minutes(self):
        _, text = self.visit("--list")
        seconds = {}
        for part, _, limit in map(str.split, text.splitlines()):
            seconds[part] = seconds.get(part, 0) + int(limit)
        self.assertEqual(len(seconds), 8, text)
        self.assertLess(max(seconds.values()), 540)

    def test_unknown_parts_are_refused(self):
        status, text = self.visit("figure")
        self.assertEqual(status, 2)
        self.assertIn('no part or step "figure"', text)

    def test_what_is_packed_runs_elsewhere(self):
        shutil.copy(shutil.which("touch"), self.build / "bin" / "program")
        self.list_of_tests([self.build / "bin" / "program", ROOT / "touched"])
        there = self.root / "there"
        (there / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts" / "gpu_check.sh", there / "scripts")
        subprocess.run([ROOT / "scripts" / "pack_gpu_check.sh", "--build", self.build,
                        "--to", there / "build" / "gpu_carry"], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(self.build)
        status, text = self.visit("cuda", root=there, BUILD="")
        self.assertEqual(status, 0, text)
        self.assertTrue((there / "touched").exists(), text)
        self.assertTrue((there / "build" / "gpu" / "bin" / "program").exists())
        self.assertFalse((ROOT / "touched").exists())

    def test_tests_of_cuda_code_run(self):
        if not BUILD or not (BUILD / "bin" / "test_core").exists():
            print("skipped: no test_core in the build folder")
            return
        (self.build / "bin").rmdir()
        (self.build / "bin").symlink_to(BUILD / "bin")
        self.list_of_tests([BUILD / "bin" / "test_core", "--source-file=*core/cuda_device_test.cpp"])
        status, text = self.visit("tests")
        self.assertEqual(status, 0, text)
        self.assertEqual(self.steps("tests"), {"info": "ok", "cuda": "ok"}, text)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
