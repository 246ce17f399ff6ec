// What the kernels of one instruction set look like from outside.
#pragma once

#include "asr/kernels/kernels.h"

namespace asr::ASR_SET {

void linear(const Linear& op, int ith, int nth);
void layer_norm(const LayerNorm& op, int ith, int nth);

}  // namespace asr::ASR_SET
