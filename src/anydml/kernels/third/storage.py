"""Conversion of elements to numbers, and rounding of numbers to elements, as functions in LLVM IR.

A float type is described by the width of its significand's field, the exponent of its smallest positive number, the bits of
infinity, and the sign bit.
"""

from __future__ import annotations

from anydml.kernels.third.balls import (
    EXPONENT,
    FINITE,
    INFINITE,
    MIDPOINT,
    NAN,
    NEGATIVE_INFINITE,
    NEGATIVE_ZERO,
    RADIUS,
    Precision,
)
from anydml.kernels.third.operations import UNDECIDED, field

FORM = "i64 %width, i64 %lowest, i64 %infinity, i64 %signbit"


def _decode(p: Precision) -> str:
    return f"""
define internal void @decode(ptr %out, i64 %bits, {FORM}) noinline {{
  %sign = and i64 %bits, %signbit
  %below = icmp ne i64 %sign, 0
  %rest = xor i64 %bits, %sign
  %nan = icmp ugt i64 %rest, %infinity
  br i1 %nan, label %isnan, label %ordered
isnan:
  call void @mark(ptr %out, i64 {NAN})
  ret void
ordered:
  %inf = icmp eq i64 %rest, %infinity
  br i1 %inf, label %isinf, label %finite
isinf:
  %ends = select i1 %below, i64 {NEGATIVE_INFINITE}, i64 {INFINITE}
  call void @mark(ptr %out, i64 %ends)
  ret void
finite:
  %none = icmp eq i64 %rest, 0
  br i1 %none, label %iszero, label %number
iszero:
  %zeros = select i1 %below, i64 {NEGATIVE_ZERO}, i64 {FINITE}
  call void @mark(ptr %out, i64 %zeros)
  ret void
number:
  %field = lshr i64 %rest, %width
  %hidden = shl i64 1, %width
  %mask = sub i64 %hidden, 1
  %low = and i64 %rest, %mask
  %normal = icmp ne i64 %field, 0
  %top = select i1 %normal, i64 %hidden, i64 0
  %m = or i64 %low, %top
  %less = sub i64 %field, 1
  %up = select i1 %normal, i64 %less, i64 0
  %e = add i64 %up, %lowest
  %minus = sub i64 0, %m
  %n = select i1 %below, i64 %minus, i64 %m
  %wide = sext i64 %n to {p.w}
  call void @settle(ptr %out, {p.w} %wide, {p.w} 0, i64 %e)
  ret void
}}
"""


# n 2^e rounded half to even
def _encode(p: Precision) -> str:
    return f"""
define internal i64 @encode_whole({p.w} %n, i64 %e, {FORM}) noinline {{
  %below = icmp slt {p.w} %n, 0
  %a = call {p.w} @llvm.abs.{p.w}({p.w} %n, i1 false)
  %none = icmp eq {p.w} %a, 0
  br i1 %none, label %zero, label %some
zero:
  ret i64 0
some:
  %sign = select i1 %below, i64 %signbit, i64 0
  %z = call {p.w} @llvm.ctlz.{p.w}({p.w} %a, i1 false)
  %z64 = trunc {p.w} %z to i64
  %len = sub i64 {p.wide}, %z64
  %top = add i64 %len, %e
  %t1 = sub i64 %top, %width
  %unit0 = sub i64 %t1, 1
  %unit = call i64 @llvm.smax.i64(i64 %unit0, i64 %lowest)
  %rise = sub i64 %unit, %lowest
  %large = icmp sgt i64 %rise, 2100
  br i1 %large, label %huge, label %place
huge:
  %end = or i64 %infinity, %sign
  ret i64 %end
place:
  %s = sub i64 %unit, %e
  %right = icmp sgt i64 %s, 0
  br i1 %right, label %round, label %exact
round:
  %tiny = icmp sgt i64 %s, {p.stored + 44}
  br i1 %tiny, label %signed, label %cut
signed:
  ret i64 %sign
cut:
  %q5 = call {p.w} @whole_of({p.w} %a, i64 %s, i64 3)
  br label %made
exact:
  %l = sub i64 0, %s
  %l5 = zext i64 %l to {p.w}
  %q6 = shl {p.w} %a, %l5
  br label %made
made:
  %q = phi {p.w} [ %q5, %cut ], [ %q6, %exact ]
  %q64 = trunc {p.w} %q to i64
  %base = shl i64 %rise, %width
  %bits = add i64 %base, %q64
  %over = icmp uge i64 %bits, %infinity
  %kept = select i1 %over, i64 %infinity, i64 %bits
  %found = or i64 %kept, %sign
  ret i64 %found
}}

define internal {{ i64, i1 }} @encode(ptr %a, {FORM}) noinline {{
  %t = alloca [{p.size} x i8], align 8
  %kind = load i64, ptr %a, align 8
  switch i64 %kind, label %open [ i64 {FINITE}, label %finite
    i64 {NEGATIVE_ZERO}, label %zero
    i64 {INFINITE}, label %above
    i64 {NEGATIVE_INFINITE}, label %below
    i64 {NAN}, label %nan ]
open:
  ret {{ i64, i1 }} {{ i64 0, i1 false }}
zero:
  br label %known
above:
  br label %known
below:
  %under = or i64 %infinity, %signbit
  br label %known
nan:
  %w = sub i64 %width, 1
  %q = shl i64 1, %w
  %quiet = or i64 %infinity, %q
  br label %known
known:
  %bits = phi i64 [ %signbit, %zero ], [ %infinity, %above ], [ %under, %below ], [ %quiet, %nan ]
  %r1 = insertvalue {{ i64, i1 }} {{ i64 0, i1 true }}, i64 %bits, 0
  ret {{ i64, i1 }} %r1
finite:
{field("a", "e", EXPONENT)}{field("a", "r", RADIUS)}{field("a", "m", MIDPOINT, p.n)}
  %m = sext {p.n} %a.m to {p.w}
  %r = zext i64 %a.r to {p.w}
{_on_boundary(p)}  %low = sub {p.w} %m, %r
  %high = add {p.w} %m, %r
  %p = call i64 @encode_whole({p.w} %low, i64 %a.e, i64 %width, i64 %lowest, i64 %infinity, i64 %signbit)
  %h = call i64 @encode_whole({p.w} %high, i64 %a.e, i64 %width, i64 %lowest, i64 %infinity, i64 %signbit)
  ; an end of 0 that is not reached from below rounds to -0
  %end = icmp eq {p.w} %high, 0
  %some = icmp ne i64 %a.r, 0
  %beside = and i1 %end, %some
  %last = select i1 %beside, i64 %signbit, i64 %h
  %agree = icmp eq i64 %p, %last
  %r2 = insertvalue {{ i64, i1 }} zeroinitializer, i64 %p, 0
  %r3 = insertvalue {{ i64, i1 }} %r2, i1 %agree, 1
  ret {{ i64, i1 }} %r3
}}
"""


def _on_boundary(p: Precision) -> str:
    """In @encode: numbers that are between two elements by definition are rounded to even."""
    if not p.settles:
        return ""
    return f"""
  %abs = call {p.w} @llvm.abs.{p.w}({p.w} %m, i1 false)
  %z = call {p.w} @llvm.ctlz.{p.w}({p.w} %abs, i1 false)
  %z64 = trunc {p.w} %z to i64
  %len = sub i64 {p.wide}, %z64
  %top = add i64 %len, %a.e
  %t1 = sub i64 %top, %width
  %unit0 = sub i64 %t1, 1
  %unit = call i64 @llvm.smax.i64(i64 %unit0, i64 %lowest)
  %half = sub i64 %unit, 1
  %on = call i64 @beside(ptr %t, ptr %a, i64 %half)
  switch i64 %on, label %beyond [ i64 1, label %here
    i64 {UNDECIDED}, label %open ]
here:
  %r4 = call {{ i64, i1 }} @encode(ptr %t, i64 %width, i64 %lowest, i64 %infinity, i64 %signbit)
  ret {{ i64, i1 }} %r4
beyond:
"""


def functions(p: Precision) -> list[str]:
    return [_decode(p), _encode(p)]
