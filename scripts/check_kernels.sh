#!/usr/bin/env bash
# The kernels of a processor that is not this one, compared with plain loops under emulation:
# `scripts/check_kernels.sh` builds those for 64-bit ARM (NEON) with the cross compiler and runs them in qemu-user.
# Debian: apt install g++-aarch64-linux-gnu qemu-user. Skipped with a message where these are missing.
set -euo pipefail
cd "$(dirname "$0")/.."

compiler=aarch64-linux-gnu-g++
for tool in "$compiler" qemu-aarch64; do
    if ! command -v "$tool" >/dev/null; then
        echo "check_kernels.sh: skipped, there is no $tool"
        exit 0
    fi
done

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
# As kernel_set() and newer_kernel_set() in CMakeLists.txt compile them.
compile() {
    local set="$1" source="$2"
    shift 2
    "$compiler" -std=c++17 -O3 -Wall -Wextra -Werror -ffp-contract=fast -fno-math-errno -fno-trapping-math \
        "-DASR_SET=$set" -Inative "$@" -c "native/asr/kernels/$source.cpp" -o "$folder/$set-$source.o"
}
for source in set linear norm attention convolution; do
    compile neon "$source"
    compile neondot "$source" -march=armv8.2-a+dotprod
done
for source in linear_integer linear_integer_few; do
    compile neondot "$source" -march=armv8.2-a+dotprod
done
"$compiler" -std=c++17 -O2 -Wall -Wextra -Werror -DASR_HAS_NEON -DASR_HAS_NEONDOT -Inative \
    native/asr/kernels/kernels.cpp native/asr/kernels/reference.cpp tests/native/check_kernels.cpp \
    "$folder"/*.o -o "$folder/check"
qemu-aarch64 -L /usr/aarch64-linux-gnu "$folder/check"
