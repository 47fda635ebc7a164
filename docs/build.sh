#!/usr/bin/env bash
# Builds the documentation site, the guide and the reference, in build/site, and checks it.
#   bash docs/build.sh
# It fails on broken links in the repository's Markdown and in the generated pages, on whatever Doxygen
# warns of, and on public names and classes that have no description.
set -euo pipefail
case ${1:-} in -h | --help) sed '1d;/^#/!Q;s/^# \{0,1\}//' "${BASH_SOURCE[0]}"; exit ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash scripts/install_packages.sh doxygen python3

work=build/docs site=build/site
rm -rf "$work" "$site"
mkdir -p "$work/in" "$site"
python3 docs/site/check.py links
python3 docs/site/pictures.py --check
python3 docs/site/prepare.py "$work/in" "$site"

doxygen -l "$work/layout.xml" 2>/dev/null
sed -i 's/\(<tab type="mainpage" visible="yes" title="\)"/\1Guide"/' "$work/layout.xml"
doxygen -w html "$work/header.html" "$work/footer.html" "$work/style.css" 2>/dev/null
sed -i 's|</head>|<link rel="icon" href="icon.svg" type="image/svg+xml"/>\n&|' "$work/header.html"
theme=docs/site/theme
version=$(awk '/^#define FERRITE_VERSION_(MAJOR|MINOR|PATCH)/ { printf "%s%s", sep, $3; sep = "." }' core/version.h)
{
  cat docs/site/Doxyfile
  echo "INPUT = $work/in"
  echo "STRIP_FROM_PATH = $work/in"
  echo "STRIP_FROM_INC_PATH = $work/in"
  echo "IMAGE_PATH = docs/images"
  echo "LAYOUT_FILE = $work/layout.xml"
  echo "OUTPUT_DIRECTORY = $site"
  echo "PROJECT_NUMBER = $version"
  echo "HTML_HEADER = $work/header.html"
  echo "HTML_EXTRA_FILES = docs/site/icon.svg"
  echo "HTML_EXTRA_STYLESHEET = $theme/doxygen-awesome.css $theme/doxygen-awesome-sidebar-only.css docs/site/site.css"
  echo "WARN_LOGFILE = $work/warnings.log"
} >"$work/Doxyfile"
doxygen "$work/Doxyfile"
python3 docs/site/finish.py "$site"

python3 docs/site/check.py names "$work/warnings.log"
python3 docs/site/check.py site "$site"
echo "The site is in $site: open $site/index.html"
