#include "asr/kernels/kernels.h"

#include <atomic>
#include <new>
#include <stdexcept>

#if defined(ASR_HAS_AVXVNNI)
#include <cpuid.h>
#elif defined(ASR_HAS_NEONDOT) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace asr {

// Each is there when the kernels were compiled for the set.
namespace avx512vnni {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}
namespace avxvnni {
extern const Kernels kernels;
}
namespace avx2 {
extern const Kernels kernels;
}
namespace neondot {
extern const Kernels kernels;
}
namespace neon {
extern const Kernels kernels;
}
namespace reference {
extern const Kernels kernels, integer_kernels;
}

namespace {

#if defined(ASR_HAS_AVXVNNI)
// Not every compiler that knows the instructions knows the name for __builtin_cpu_supports.
bool has_avxvnni() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
}
#endif

#if defined(ASR_HAS_NEONDOT)
bool has_dot_products() {
#if defined(__linux__)
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#elif defined(__APPLE__)
    return true;  // every processor of Apple's that macOS runs on has them
#else
    return false;
#endif
}
#endif

std::vector<const Kernels*> find_sets() {
    std::vector<const Kernels*> sets;
#if defined(ASR_HAS_AVX512)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
#if defined(ASR_HAS_AVX512VNNI)
        if (__builtin_cpu_supports("avx512vnni")) sets.push_back(&avx512vnni::kernels);
#endif
        sets.push_back(&avx512::kernels);
    }
#endif
#if defined(ASR_HAS_AVX2)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
#if defined(ASR_HAS_AVXVNNI)
        if (has_avxvnni()) sets.push_back(&avxvnni::kernels);
#endif
        sets.push_back(&avx2::kernels);
    }
#endif
#if defined(ASR_HAS_NEON)
#if defined(ASR_HAS_NEONDOT)
    if (has_dot_products()) sets.push_back(&neondot::kernels);
#endif
    sets.push_back(&neon::kernels);
#endif
    sets.push_back(&reference::kernels);
    sets.push_back(&reference::integer_kernels);
    return sets;
}

std::atomic<const Kernels*> chosen{nullptr};

std::atomic<bool> out_of_memory{false};

struct Memory {
    float* data = nullptr;
    std::size_t size = 0;
    ~Memory() { release(); }
    void release() { ::operator delete(data, std::align_val_t{64}); }
};

}  // namespace

const std::vector<const Kernels*>& kernel_sets() {
    static const std::vector<const Kernels*> sets = find_sets();
    return sets;
}

const Kernels& kernels() {
    const Kernels* set = chosen.load(std::memory_order_relaxed);
    return set != nullptr ? *set : *kernel_sets().front();
}

const Kernels& kernel_set(const std::string& name) {
    for (const Kernels* set : kernel_sets()) {
        if (name == set->name) return *set;
    }
    throw std::invalid_argument("there are no kernels named '" + name + "' for this processor");
}

void use_kernels(const std::string& name) { chosen = &kernel_set(name); }

float* scratch(std::size_t floats) noexcept {
    thread_local Memory memory;
    if (memory.size < floats) {
        memory.release();
        memory.size = 0;
        memory.data =
            static_cast<float*>(::operator new(floats * sizeof(float), std::align_val_t{64}, std::nothrow));
        if (memory.data == nullptr) {
            out_of_memory = true;
            return nullptr;
        }
        memory.size = floats;
    }
    return memory.data;
}

bool take_out_of_memory() noexcept { return out_of_memory.exchange(false); }

}  // namespace asr
