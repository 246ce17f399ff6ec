// Linear layers over q8_0 weights in integers for so few frames that the weights are multiplied where they
// lie: reading them takes longer than the products.

#include "asr/kernels/blocks.h"
#include "asr/kernels/linear.h"
#include "asr/kernels/set.h"

namespace asr::ASR_SET {
namespace {

template <int Frames>
void few(const Linear& op, int ith, int nth) {
    typedef float Sums __attribute__((vector_size(sizeof(Partial))));
    constexpr int kLanes = sizeof(Sums) / sizeof(float);
    const std::int64_t n = op.n_in, blocks = n / kBlock, width = round_up(n, 16);
    float* memory = scratch(static_cast<std::size_t>((Frames + 1) * width + Frames * blocks));
    if (memory == nullptr) return;
    auto* features = reinterpret_cast<Feature*>(memory);  // [block, frame]
    float* scales = memory + Frames * width;
    float* room = scales + Frames * blocks;
    for (int t = 0; t < Frames; ++t) {
        const float* x = frame(op, t, room);
        for (std::int64_t b = 0; b < blocks; ++b) {
            scales[b * Frames + t] = round_block(x + b * kBlock, features + (b * Frames + t) * kBlock);
        }
    }
    row_by_row<Frames>(op, ith, nth, [&](const Linear::Part& part, std::int64_t row, float* out) {
        const char* weights = part.weight + row * part.row_bytes;
        Sums sums[Frames] = {};
        for (std::int64_t b = 0; b < blocks; ++b) {
            const char* block = weights + b * kStored;
            const float scale = load_half(block);
            for (int t = 0; t < Frames; ++t) {
                const Partial products = dot_bytes(features + (b * Frames + t) * kBlock, block + 2);
                sums[t] += __builtin_convertvector(products, Sums) * (scale * scales[b * Frames + t]);
            }
        }
        for (int t = 0; t < Frames; ++t) {
            float total = 0;
            for (int i = 0; i < kLanes; ++i) total += sums[t][i];
            out[t * kWidth] = total;
        }
    });
}

}  // namespace

void linear_integer_few(const Linear& op, int ith, int nth) {
    static_assert(kFew == 3);
    if (op.n_frames == 1) return few<1>(op, ith, nth);
    if (op.n_frames == 2) return few<2>(op, ith, nth);
    few<3>(op, ith, nth);
}

}  // namespace asr::ASR_SET
