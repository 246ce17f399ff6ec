#include "asr/kernels/norm.h"

#include "asr/kernels/set.h"

namespace asr::ASR_SET {

void layer_norm(const LayerNorm& op, int ith, int nth) {
    const std::int64_t end = op.n_frames * (ith + 1) / nth;
    for (std::int64_t t = op.n_frames * ith / nth; t < end; ++t) {
        normalise(op.x + t * op.x_stride, op.n, op.norm, op.y + t * op.n);
    }
}

}  // namespace asr::ASR_SET
