// What the kernels of one instruction set look like from outside.
#pragma once

#include "asr/kernels/kernels.h"

namespace asr::ASR_SET {

void linear(const Linear& op, int ith, int nth);
// Over q8_0 weights, where products of integers are faster.
void linear_integer(const Linear& op, int ith, int nth);
void linear_integer_few(const Linear& op, int ith, int nth);
void layer_norm(const LayerNorm& op, int ith, int nth);
void relative_attention(const RelativeAttention& op, int ith, int nth);
void first_convolution(const StridedConvolution& op, int ith, int nth);
void strided_depthwise(const StridedConvolution& op, int ith, int nth);
void depthwise(const Depthwise& op, int ith, int nth);

}  // namespace asr::ASR_SET
