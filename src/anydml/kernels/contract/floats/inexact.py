"""The processor's note that some operation has rounded: where it is not made, all sums since it was cleared are exact.

A sum that is known to be exact needs no bound, whatever its terms; so sums of integers, and of terms that cancel one after the
other, cost what others do. An emulator that makes no such note would have everything taken for exact, so that it has to show
each time that it makes one.
"""

from __future__ import annotations

from anydml.kernels.code.values import Body, Kind, Value

DEFAULT = 0x1F80  # x86: rounds to nearest, masks all exceptions, and none of them is noted; the caller's state is restored
X86, ARM = 1 << 5, 1 << 4  # where x86 and Arm note an inexact result
LOST = 2.0**-60  # added to 1, it is rounded away


class Note:
    """The note, cleared when this is made, which is for a function's first block; `rounded` is for what follows its loops."""

    def __init__(self, body: Body) -> None:
        self.body, self.x86 = body, body.target.architecture == "x86"
        self.place = body.op("alloca double, align 8")
        self.clear()

    def clear(self) -> None:
        """Clear the note, in a block of its own."""
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
        """Whether an operation in the loops since then may have rounded."""
        body, place = self.body, self.place
        bit = X86 if self.x86 else ARM
        sums = body.op(f"and i64 {self._read()}, {bit}")
        one = body.constant(Kind("double"), 1.0)
        # nobody may do without this addition
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
