#!/usr/bin/env bash
# Makes the pictures of the README from the seeded demo, by the test that visits it in a browser.
# Usage: dashboards/web/pictures.sh [folder]; all pictures go there, dashboards/pictures unless given.
# Needs chromium and chromedriver. It takes some minutes, as charts need some.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

folder=${1:-dashboards/pictures}
mkdir -p "$folder"
DULY_PICTURES=$(realpath "$folder") cargo test --locked -p duly-server --test server -- \
    --exact dashboard::demo::a_newcomer_finds_what_is_wrong_and_mends_it
