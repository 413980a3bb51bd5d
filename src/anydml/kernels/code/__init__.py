"""Machine code: LLVM, this machine's processor, instruction sets, and the compilation of LLVM IR to code in memory."""
