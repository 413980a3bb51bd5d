"""Machine code: LLVM, the processor at hand, instruction sets, and text in, code in memory out."""
