"""The inexact flag of the processor: while it is not set, all sums since it was cleared are exact.

A sum that is known to be exact needs no bound, whatever its terms. So sums of integers, and of terms that cancel one another,
cost no more than others. With an emulator that never sets the flag, all sums would seem exact. So each use of the flag
includes a test that it is set by an operation that rounds.
"""

from __future__ import annotations

from anydml.kernels.code.values import Body, Kind, Value

DEFAULT = 0x1F80  # x86: round to nearest, all exceptions masked, all flags cleared; the caller's state is restored
X86, ARM = 1 << 5, 1 << 4  # the inexact flags of x86 and Arm
LOST = 2.0**-60  # 1 + LOST rounds to 1


class Note:
    """The inexact flag. The constructor clears it, in a function's first block; `rounded` reads it after the loops."""

    def __init__(self, body: Body) -> None:
        self.body, self.x86 = body, body.target.architecture == "x86"
        self.place = body.op("alloca double, align 8")
        self.clear()

    def clear(self) -> None:
        """Clear the flag."""
        body = self.body
        if self.x86:
            body.do(f"store i32 {DEFAULT}, ptr {self.place}, align 8")
            body.declared["declare void @llvm.x86.sse.ldmxcsr(ptr)"] = None
            body.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {self.place})")
        else:
            body.declared["declare void @llvm.aarch64.set.fpsr(i64)"] = None
            others = body.op(f"and i64 {self._read()}, {~ARM}")
            body.do(f"call void @llvm.aarch64.set.fpsr(i64 {others})")

    def rounded(self) -> Value:
        """Whether an operation since the flag was cleared may have rounded: the flag is set, or the processor never sets it."""
        body, place = self.body, self.place
        bit = X86 if self.x86 else ARM
        sums = body.op(f"and i64 {self._read()}, {bit}")
        one = body.constant(Kind("double"), 1.0)
        # volatile, so that no optimiser removes this addition
        body.do(f"store volatile double {one.name}, ptr {place}, align 8")
        read = body.value(f"load volatile double, ptr {place}, align 8", one.kind)
        body.do(f"store volatile double {(read + LOST).name}, ptr {place}, align 8")
        shown = body.op(f"and i64 {self._read()}, {bit}")
        return body.value(f"or i1 {body.op(f'icmp ne i64 {sums}, 0')}, {body.op(f'icmp eq i64 {shown}, 0')}", Kind("i1"))

    def _read(self) -> str:
        body = self.body
        if self.x86:
            body.declared["declare void @llvm.x86.sse.stmxcsr(ptr)"] = None
            body.do(f"call void @llvm.x86.sse.stmxcsr(ptr {self.place})")
            return body.op(f"zext i32 {body.op(f'load volatile i32, ptr {self.place}, align 8')} to i64")
        body.declared["declare i64 @llvm.aarch64.get.fpsr()"] = None
        return body.op("call i64 @llvm.aarch64.get.fpsr()")
