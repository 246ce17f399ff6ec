def missing() -> list[str]:
    """Instruction sets that the prebuilt ggml uses and this processor lacks."""
