"""The compiler that all kernels share: text in, machine code in memory out. llvmlite is imported when it is first needed."""
