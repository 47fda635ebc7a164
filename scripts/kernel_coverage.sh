#!/usr/bin/env bash
# Line coverage of kernels/cuda by the kernel tests, run on the emulator:
#   scripts/kernel_coverage.sh [--missing] [test options...]
#   scripts/kernel_coverage.sh [--missing] --report BUILD
# Builds the preset emulator-coverage and runs test_kernels; with --report it does neither, and
# uses the data of earlier runs in a build folder with FERRITE_COVERAGE=ON. Then prints the
# coverage of each file and of all together, with --missing also the lines that never ran; fails
# under 90 %.
set -euo pipefail
case ${1:-} in -h | --help) sed '1d;/^#/!Q;s/^# \{0,1\}//' "${BASH_SOURCE[0]}"; exit ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

least=90
build=build/emulator-coverage
jobs=${FERRITE_JOBS:-$(nproc)}
report=
missing=
while [[ ${1:-} == --report || ${1:-} == --missing ]]; do
  case $1 in
    --missing) missing=$1 ;;
    --report)
      report=$1
      shift
      build=${1:?--report needs a build folder}
      ;;
  esac
  shift
done
objects=$build/kernels/CMakeFiles/ferrite_kernels.dir

if [[ -z $report ]]; then
  bash scripts/configure.sh emulator-coverage >/dev/null
  cmake --build "$build" --parallel "$jobs" --target test_kernels
  find "$build" -name '*.gcda' -delete
  "$build/bin/test_kernels" "$@"
fi

python3 - "$objects" "$least" "${GCOV:-gcov}" $missing <<'EOF'
import json
import pathlib
import subprocess
import sys

objects, least, gcov = pathlib.Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
show_missing = "--missing" in sys.argv[4:]
root = pathlib.Path.cwd().resolve()

# Execution counts of lines, over all object files and template instances.
counts = {}
sources = sorted(root.glob("kernels/cuda/**/*.cu"))
for notes in sorted(objects.rglob("*.gcno")):
    data = notes.with_suffix(".gcda")
    command = [gcov, "--json-format", "--stdout", str(data if data.exists() else notes)]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    where = pathlib.Path(report["current_working_directory"])
    for file in report["files"]:
        path = (where / file["file"]).resolve()
        if not path.is_relative_to(root / "kernels/cuda"):
            continue
        lines = counts.setdefault(path, {})
        for line in file["lines"]:
            number = line["line_number"]
            lines[number] = max(lines.get(number, 0), line["count"])

untouched = [path for path in sources if path not in counts]
if untouched or not counts:
    sys.exit("no coverage data for " + (", ".join(map(str, untouched)) or str(objects)))


def ranges(numbers):
    text, start, last = [], None, None
    for n in numbers + [None]:
        if start is not None and n == last + 1:
            last = n
            continue
        if start is not None:
            text.append(str(start) if start == last else f"{start}-{last}")
        start = last = n
    return ", ".join(text)


total = run = 0
for path, lines in sorted(counts.items()):
    hit = sum(count > 0 for count in lines.values())
    total, run = total + len(lines), run + hit
    print(f"{100 * hit / len(lines):6.1f} %  {hit:5} of {len(lines):5}  {path.relative_to(root)}")
    if show_missing and hit < len(lines):
        print("          never ran:", ranges(sorted(n for n, c in lines.items() if c == 0)))
percent = 100 * run / total
print(f"{percent:6.1f} %  {run:5} of {total:5}  in all")
if percent < least:
    sys.exit(f"less than {least:.0f} % of kernels/cuda ran")
EOF
