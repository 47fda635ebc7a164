"""The rules of scripts/lint_kernels.py find the fault of each kernel in samples.ptx, and no other.

    lint_kernels_test.py [PTXAS]
"""
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ptxas = sys.argv.pop(1) if len(sys.argv) > 1 else "ptxas"
here = pathlib.Path(__file__).resolve().parent
script = here.parent.parent / "scripts/lint_kernels.py"
spec = importlib.util.spec_from_file_location("lint_kernels", script)
lint = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lint)

FAULTS = {
    "local_array": "local",
    "split_store": "split",
    "narrow_loop": "narrow",
    "tail_in_loop": "tail",
    "space_of_shared": "space",
    "registers_without_bound": "registers",
    "good_stream": None,
}
# What ptxas says of kernels, in its form.
LOG = """\
ptxas info    : Compiling entry function 'local_array' for 'sm_80'
ptxas info    : Function properties for local_array
    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers, 16 bytes cumulative stack size, 364 bytes cmem[0]
ptxas info    : Compiling entry function 'registers_without_bound' for 'sm_80'
ptxas info    : Function properties for registers_without_bound
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 72 registers, used 0 barriers, 360 bytes cmem[0]
ptxas info    : Compiling entry function 'good_stream' for 'sm_80'
ptxas info    : Function properties for good_stream
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 372 bytes cmem[0]
"""


def read(log=LOG):
    kernels, shared = lint.read_ptx((here / "samples.ptx").read_text())
    lint.read_usage(kernels, log)
    return {kernel.name: kernel for kernel in kernels}, shared


def found(kernel, shared, streams=True):
    return [rule for rule, _ in lint.look(kernel, streams, shared)]


class Rules(unittest.TestCase):
    def test_each_rule_finds_its_fault_and_nothing_else(self):
        kernels, shared = read()
        self.assertEqual(set(kernels), set(FAULTS))
        for name, rule in FAULTS.items():
            streams = name in ("narrow_loop", "tail_in_loop", "good_stream")
            self.assertEqual(found(kernels[name], shared, streams), [rule] if rule else [], name)

    def test_every_rule_has_a_sample(self):
        self.assertEqual({rule for rule in FAULTS.values() if rule}, set(lint.RULES))

    def test_bounds_are_read(self):
        kernels, _ = read()
        good = kernels["good_stream"]
        self.assertEqual((good.threads, good.blocks, good.registers), (256, 2, 128))
        good.registers = 129  # rounded up to 136: two blocks no longer fit
        self.assertEqual(found(good, set()), ["registers"])

    def test_spilled_registers_are_local_memory(self):
        log = LOG.replace("0 bytes spill stores, 0 bytes spill loads\nptxas info    : Used 128",
                          "8 bytes spill stores, 4 bytes spill loads\nptxas info    : Used 128")
        kernels, shared = read(log)
        self.assertEqual(found(kernels["good_stream"], shared), ["local"])

    def test_only_kernels_that_stream_must_have_wide_accesses(self):
        kernels, shared = read()
        self.assertEqual(found(kernels["narrow_loop"], shared, streams=False), [])
        self.assertEqual(found(kernels["tail_in_loop"], shared, streams=False), [])


class Command(unittest.TestCase):
    """The command, on the PTX as it is, where there is a ptxas."""

    def setUp(self):
        if not shutil.which(ptxas):
            self.skipTest(f"there is no {ptxas}")

    def run_lint(self, exceptions, *options):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as allow:
            allow.write(exceptions)
            allow.flush()
            done = subprocess.run(
                [sys.executable, script, "--ptx", here / "samples.ptx", "--arch", "80,90", "--allow",
                 allow.name, "--ptxas", ptxas, *options], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    STREAMS = "streams ^(narrow|tail|good)\n"

    def test_faults_are_printed_and_fail(self):
        code, text = self.run_lint(self.STREAMS)
        self.assertEqual(code, 1, text)
        for name, rule in FAULTS.items():
            for arch in (80, 90) if rule and rule != "registers" else ():
                self.assertIn(f"{rule}: sm_{arch}: {name}: ", text)
        self.assertNotIn("good_stream", text)

    def test_exceptions_cover_what_they_name(self):
        exceptions = self.STREAMS + "".join(
            f"{rule} * ^{name}$ -- for this test\n" for name, rule in FAULTS.items() if rule)
        code, text = self.run_lint(exceptions)
        self.assertEqual(code, 0, text)
        code, text = self.run_lint(exceptions.replace("split *", "split 80"))
        self.assertEqual(code, 1, text)
        self.assertIn("split: sm_90: split_store", text)
        self.assertNotIn("split: sm_80", text)

    def test_an_exception_needs_a_reason(self):
        code, text = self.run_lint("local * ^local_array$\n")
        self.assertNotEqual(code, 0)
        self.assertIn("REASON", text)

    def test_report(self):
        _, text = self.run_lint(self.STREAMS, "--report")
        self.assertRegex(text, r"sm_80 +\d+ registers, +256 threads, loop +\d+, ld16:1 ld4:3 st16:1 st4:1  good_stream")


class List(unittest.TestCase):
    def test_the_list_of_exceptions_is_well_formed(self):
        streams, exceptions = lint.read_exceptions(script.with_suffix(".txt"))
        self.assertTrue(streams)
        self.assertTrue(exceptions)


if __name__ == "__main__":
    unittest.main(verbosity=1)
