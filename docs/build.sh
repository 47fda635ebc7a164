#!/usr/bin/env bash
# Builds the documentation site, the guide and the reference, in build/site, and checks it.
#   bash docs/build.sh
# It fails on broken links in the repository's Markdown and in the generated pages, on whatever Doxygen
# warns of, and on public names and classes that have no description.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash scripts/install_packages.sh doxygen

work=build/docs site=build/site
rm -rf "$work" "$site"
mkdir -p "$work/in" "$site"
python3 docs/site/check.py links
python3 docs/site/pictures.py --check
python3 docs/site/prepare.py "$work/in" "$site"

doxygen -l "$work/layout.xml" 2>/dev/null
sed -i 's/<tab type="pages" visible="yes" title=""/<tab type="pages" visible="yes" title="Guide"/' "$work/layout.xml"
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
  echo "HTML_EXTRA_STYLESHEET = $theme/doxygen-awesome.css $theme/doxygen-awesome-sidebar-only.css docs/site/site.css"
  echo "WARN_LOGFILE = $work/warnings.log"
} >"$work/Doxyfile"
doxygen "$work/Doxyfile"
# A line of a hundred names says nothing.
grep -l '^<p>Inherited by' "$site"/*.html | xargs -r sed -i -E '/^<p>Inherited by(.*<a ){12}/d'

python3 docs/site/check.py names "$work/warnings.log"
python3 docs/site/check.py site "$site"
echo "The site is in $site: open $site/index.html"
