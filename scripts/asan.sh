#!/usr/bin/env bash
# The tests of ownership and misuse under AddressSanitizer: the extension modules are built with it into an
# environment of its own, in a temporary folder. Takes a few minutes. `scripts/asan.sh TEST...` runs other tests.
# Skipped with a message where the compiler has no AddressSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."

compiler="${CXX:-g++}"
runtime="$("$compiler" -print-file-name=libasan.so 2>/dev/null || true)"
if [ "$(uname -s)" != Linux ] || [ ! -f "$runtime" ]; then
    echo "asan.sh: skipped, $compiler has no libasan here"
    exit 0
fi

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
unset SKBUILD_CMAKE_DEFINE
echo "asan.sh: building with AddressSanitizer"
CXXFLAGS="-fsanitize=address -fno-omit-frame-pointer -O0 -g1 -w" SKBUILD_CMAKE_BUILD_TYPE=Debug \
    "$folder/venv/bin/pip" install --quiet --no-cache-dir '.[test]'

# Python itself is not built with it: its runtime has to be there first, and that of C++ for exceptions.
export LD_PRELOAD="$runtime $("$compiler" -print-file-name=libstdc++.so.6)"
# Python keeps memory until the process ends, and some tests ask for more than there is.
export ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=8192"
# Small objects would otherwise come from Python's own allocator, out of sight.
export PYTHONMALLOC=malloc
export ASAN_TESTS=1

if [ $# -eq 0 ]; then
    set -- tests/ggml/test_{contexts,memory,backends,tensor,misuse,ownership,meta,ggmlr,indices,quantize}.py \
        tests/ggml/test_gguf{,_writer,_refusals,_saving}.py tests/asr/test_backend{,_weights,_threads}.py \
        tests/asr/test_tensor_parallel.py
fi
"$folder/venv/bin/python" -m pytest -q -p no:cacheprovider "$@"
