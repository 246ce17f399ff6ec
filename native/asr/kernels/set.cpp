// The table of the kernels of one instruction set.

#include "asr/kernels/set.h"

#include "asr/kernels/simd.h"

#define ASR_STRING_OF(name) #name
#define ASR_STRING(name) ASR_STRING_OF(name)

namespace asr::ASR_SET {

extern const Kernels kernels;
const Kernels kernels = {ASR_STRING(ASR_SET),
                         kIntegers ? "reference_integer" : "reference",
                         linear,
                         layer_norm,
                         relative_attention,
                         first_convolution,
                         strided_depthwise,
                         depthwise};

}  // namespace asr::ASR_SET
