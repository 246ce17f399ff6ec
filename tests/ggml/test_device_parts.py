"""A device with a largest buffer size: what does not fit in one buffer lies in several."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# The size is read when ggml's Vulkan backend starts, so a process of its own.
PROGRAM = """
import os, numpy as np, ggml
ggml.load_backend(os.environ["GGML_TEST_VULKAN_MODULE"])
ctx = ggml.Context(1 << 16)
tensors = [ctx.new_tensor(ggml.Type.F32, [256, 1024]) for _ in range(4)]
buffer = ggml.alloc_ctx_tensors(ctx, ggml.Backend("Vulkan0"))
assert buffer.is_multi
for i, t in enumerate(tensors):
    t.set(np.full((1024, 256), i, np.float32))
assert all((t.get() == i).all() for i, t in enumerate(tensors))
buffer.clear(255)
assert all(np.isnan(t.get()).all() for t in tensors)
buffer.close()
for t in tensors:
    try:
        t.get()
    except ggml.GgmlError as error:
        assert "no memory" in str(error)
    else:
        raise AssertionError("a tensor of a closed buffer can be read")
"""


@pytest.mark.skipif("GGML_TEST_VULKAN_MODULE" not in os.environ, reason="GGML_TEST_VULKAN_MODULE is not set")
def test_closing_finds_the_tensors_of_every_part() -> None:
    sizes = {"GGML_VK_FORCE_MAX_ALLOCATION_SIZE": "2097152", "GGML_VK_FORCE_MAX_BUFFER_SIZE": "2097152"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | sizes, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
