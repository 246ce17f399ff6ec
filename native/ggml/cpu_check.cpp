// Which of the instructions that the prebuilt ggml uses does this processor lack?
//
// A module of its own that links nothing and is compiled for the baseline instruction set, so that it can be
// imported, and can answer, where loading ggml would end in an illegal instruction.

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#if defined(_MSC_VER) && (defined(_M_X64) || defined(_M_IX86))
#include <intrin.h>
#define ASR_X86 1
#elif defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#define ASR_X86 1
#endif

namespace {

#ifdef ASR_X86
struct Registers {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf) {
    Registers r;
#if defined(_MSC_VER)
    int out[4];
    __cpuidex(out, static_cast<int>(leaf), static_cast<int>(subleaf));
    r.eax = static_cast<unsigned>(out[0]);
    r.ebx = static_cast<unsigned>(out[1]);
    r.ecx = static_cast<unsigned>(out[2]);
    r.edx = static_cast<unsigned>(out[3]);
#else
    __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
#endif
    return r;
}

// The operating system must save the AVX registers too (XCR0 bits 1 and 2).
bool avx_state_enabled() {
#if defined(_MSC_VER)
    return (_xgetbv(0) & 6U) == 6U;
#else
    unsigned low = 0;
    unsigned high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 6U) == 6U;
#endif
}

std::vector<std::string> missing() {
    const auto bit = [](unsigned word, int n) { return ((word >> n) & 1U) != 0; };
    const Registers one = cpuid(1, 0);
    const Registers seven = cpuid(7, 0);
    const bool avx = bit(one.ecx, 27) && bit(one.ecx, 28) && avx_state_enabled();
    std::vector<std::string> out;
    if (!avx) out.emplace_back("AVX");
    if (!avx || !bit(seven.ebx, 5)) out.emplace_back("AVX2");
    if (!avx || !bit(one.ecx, 12)) out.emplace_back("FMA");
    if (!avx || !bit(one.ecx, 29)) out.emplace_back("F16C");
    if (!bit(seven.ebx, 8)) out.emplace_back("BMI2");
    return out;
}
#else
std::vector<std::string> missing() { return {}; }  // the other prebuilt libraries use their baseline only
#endif

}  // namespace

PYBIND11_MODULE(_cpu, m) {
    m.doc() = "Instruction sets that the prebuilt ggml needs and this processor lacks.";
    m.def("missing", [] {
        pybind11::list out;
        for (const auto& name : missing()) out.append(name);
        return out;
    });
}
