// What the CPU library was built with and the processor has.

#include "ggml/bind.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

// Every ggml_cpu_has_* of ggml-cpu.h, in its order.
py::dict cpu_features() {
    py::dict out;
#define FEATURE(name) out[#name] = ggml_cpu_has_##name() != 0
    FEATURE(sse3);
    FEATURE(ssse3);
    FEATURE(avx);
    FEATURE(avx_vnni);
    FEATURE(avx2);
    FEATURE(bmi2);
    FEATURE(f16c);
    FEATURE(fma);
    FEATURE(avx512);
    FEATURE(avx512_vbmi);
    FEATURE(avx512_vnni);
    FEATURE(avx512_bf16);
    FEATURE(amx_int8);
    FEATURE(neon);
    FEATURE(arm_fma);
    FEATURE(fp16_va);
    FEATURE(dotprod);
    FEATURE(matmul_int8);
    FEATURE(sve);
    FEATURE(sme);
    FEATURE(sme2);
    FEATURE(riscv_v);
    FEATURE(vsx);
    FEATURE(vxe);
    FEATURE(wasm_simd);
    FEATURE(llamafile);
#undef FEATURE
    return out;
}

py::dict cpu_vector_bytes() {
    py::dict out;
    out["sve_cnt"] = ggml_cpu_get_sve_cnt();
    out["rvv_vlen"] = ggml_cpu_get_rvv_vlen();
    return out;
}

}  // namespace

void bind_features(py::module_& m) {
    m.def("cpu_features", cpu_features,
          "ggml_cpu_has_*: by name, whether ggml's CPU library was built with it and the processor has it.");
    m.def("cpu_vector_bytes", cpu_vector_bytes,
          "ggml_cpu_get_sve_cnt, ggml_cpu_get_rvv_vlen: bytes a vector; 0 without such vectors.");
}

}  // namespace ggmlpy
