"""Numbers of many bits with an error bound, and their arithmetic, as functions in LLVM IR for a `Precision`.

A number is a record: its kind and, if it is finite, an exponent e, a radius r, a height and a midpoint m. The number is
between (m - r) 2^e and (m + r) 2^e. Sums, products, quotients and roots that fit are exact: their radius is 0. A zero of
radius 0 is +0.

If |m| = r > 0, the number lies between 0 and 2 m 2^e, and is not 0: its sign is known, however small it is. Functions that
decay are such numbers far away, and so are products and quotients whose exponents would be below -FARTHEST. They have bounds of
log2 |x|, as two float64, so that they can be ordered: of two that are added, the larger one has the sum's sign.

**Zeros by definition.** A sum of numbers that are not rational is 0 if it is within 2^-1024 of its largest term, and rational
numbers are exact (rule 10 of the numbers' semantics, in `exact/reals.py`). In a precision that `settles`, a sum is 0 if both
say so: it is within 2^-NEAR of its larger term, and, if its terms are rational, too small for a fraction of their heights. If a
number is rational, its numerator and denominator are below 2^height. A sum of which few bits are left, and which is not 0, is
unknown, since it may be 0 by definition: every decision of such a precision is that of the exact evaluation. Sums within
functions (`add`, not `sum`) contain the exact ones, and no more.
"""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

EXPONENT, RADIUS, HEIGHT, LOW, HIGH, MIDPOINT = 8, 16, 24, 32, 40, 48  # offsets in a number; the kind is its first word
FINITE, NEGATIVE_ZERO, INFINITE, NEGATIVE_INFINITE, NAN, UNKNOWN = range(6)
RADIUS_BITS = 60
FARTHEST = 1 << 40  # magnitude of exponents
UNBOUNDED = 1 << 40  # the height of a number of which none is known
NEAR = 1024 + 64  # so that a sum of 2^64 terms at most, whose partial sums may be larger than they are, is within 2^-1024
SURE = 200  # bits that are left of a sum that is not 0 by definition: precision minus 1,000


class Precision(NamedTuple):
    """bits: of a midpoint at most, an even number. stored: of its integer. wide: of integers in between."""

    bits: int
    stored: int
    wide: int

    @property
    def n(self) -> str:
        return f"i{self.stored}"

    @property
    def w(self) -> str:
        return f"i{self.wide}"

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return MIDPOINT + self.stored // 8

    @property
    def settles(self) -> bool:
        """Whether sums are zero by definition if hardly anything is left of them."""
        return self.bits >= NEAR + 64

    @property
    def sum(self) -> str:
        """The function that adds two numbers of a statement."""
        return "sum" if self.settles else "add"

    @property
    def difference(self) -> str:
        return "difference" if self.settles else "subtract"

    @property
    def drops(self) -> bool:
        """Whether no integer in between has room for all bits of a product."""
        return 2 * (self.bits + 1) >= self.wide


FIRST, LAST = Precision(250, 256, 512), Precision(1210, 1216, 2048)
PRECISIONS = (FIRST, LAST)  # elements that the first leaves undecided are computed again


def declared(p: Precision) -> list[str]:
    return [
        f"declare {p.w} @llvm.ctlz.{p.w}({p.w}, i1)",
        f"declare {p.w} @llvm.cttz.{p.w}({p.w}, i1)",
        f"declare {p.w} @llvm.abs.{p.w}({p.w}, i1)",
        "declare double @llvm.maxnum.f64(double, double)",
        "declare double @llvm.fabs.f64(double)",
        "declare i64 @llvm.smax.i64(i64, i64)",
        "declare i64 @llvm.smin.i64(i64, i64)",
        "declare i64 @llvm.umin.i64(i64, i64)",
    ]


def _double(x: float) -> str:
    """A float64 constant of LLVM."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"


def _fields(p: Precision, a: str) -> str:
    """Instructions that load the fields of a number: %a.e, %a.r, %a.m for `a`."""
    return f"""  %{a}.ep = getelementptr i8, ptr %{a}, i64 {EXPONENT}
  %{a}.e = load i64, ptr %{a}.ep, align 8
  %{a}.rp = getelementptr i8, ptr %{a}, i64 {RADIUS}
  %{a}.r = load i64, ptr %{a}.rp, align 8
  %{a}.mp = getelementptr i8, ptr %{a}, i64 {MIDPOINT}
  %{a}.n = load {p.n}, ptr %{a}.mp, align 8
  %{a}.m = sext {p.n} %{a}.n to {p.w}
  %{a}.w = zext i64 %{a}.r to {p.w}
"""


def _mark(p: Precision) -> str:
    return f"""
define internal void @mark(ptr %out, i64 %kind) noinline {{
  store i64 %kind, ptr %out, align 8
  %e = getelementptr i8, ptr %out, i64 {EXPONENT}
  store i64 0, ptr %e, align 8
  %r = getelementptr i8, ptr %out, i64 {RADIUS}
  store i64 0, ptr %r, align 8
  %m = getelementptr i8, ptr %out, i64 {MIDPOINT}
  store {p.n} 0, ptr %m, align 8
  ret void
}}
"""


# a number between 0 and +-u 2^e that is not 0, as a record, where u is 1 to 2^508
def _beside_zero(p: Precision) -> str:
    return f"""
define internal void @put_beside_zero(ptr %out, {p.w} %u, i1 %below, i64 %e) noinline {{
  %z = call {p.w} @llvm.ctlz.{p.w}({p.w} %u, i1 false)
  %z64 = trunc {p.w} %z to i64
  %s0 = sub i64 {p.wide - RADIUS_BITS + 2}, %z64
  %s = call i64 @llvm.smax.i64(i64 %s0, i64 0)
  %k = zext i64 %s to {p.w}
  %v = lshr {p.w} %u, %k
  %v64 = trunc {p.w} %v to i64
  %r = add i64 %v64, 1
  %e1 = add i64 %e, %s
  %e2 = call i64 @llvm.smax.i64(i64 %e1, i64 {-FARTHEST})
  %large = icmp sge i64 %e2, {FARTHEST}
  br i1 %large, label %lost, label %kept
lost:
  call void @mark(ptr %out, i64 {UNKNOWN})
  ret void
kept:
  store i64 {FINITE}, ptr %out, align 8
  %ep = getelementptr i8, ptr %out, i64 {EXPONENT}
  store i64 %e2, ptr %ep, align 8
  %hp = getelementptr i8, ptr %out, i64 {HEIGHT}
  store i64 {UNBOUNDED}, ptr %hp, align 8
  %rp = getelementptr i8, ptr %out, i64 {RADIUS}
  store i64 %r, ptr %rp, align 8
  %mp = getelementptr i8, ptr %out, i64 {MIDPOINT}
  %r5 = zext i64 %r to {p.n}
  %minus = sub {p.n} 0, %r5
  %m = select i1 %below, {p.n} %minus, {p.n} %r5
  store {p.n} %m, ptr %mp, align 8
  %top = add i64 %e2, {RADIUS_BITS + 1}
  %high = sitofp i64 %top to double
  call void @put_logarithm(ptr %out, double {_double(-math.inf)}, double %high)
  ret void
}}

; set the bounds of log2 |x| of a number beside zero; they become a little wider, so that their own rounding does not matter
define internal void @put_logarithm(ptr %out, double %low, double %high) noinline {{
  %ls = call double @llvm.fabs.f64(double %low)
  %hs = call double @llvm.fabs.f64(double %high)
  %ld = fmul double %ls, {_double(2.0**-48)}
  %hd = fmul double %hs, {_double(2.0**-48)}
  %l = fsub double %low, %ld
  %h0 = fadd double %high, %hd
  %h = call double @llvm.maxnum.f64(double %h0, double {_double(-(2.0**1000))})
  %lp = getelementptr i8, ptr %out, i64 {LOW}
  %hp = getelementptr i8, ptr %out, i64 {HIGH}
  store double %l, ptr %lp, align 8
  store double %h, ptr %hp, align 8
  ret void
}}

; bounds of log2 |x| of a number whose sign is known, which is not 0
define internal {{ double, double }} @logarithm(ptr %a) noinline {{
{_fields(p, "a")}
  %x = call {p.w} @llvm.abs.{p.w}({p.w} %a.m, i1 false)
  %least = sub {p.w} %x, %a.w
  %most = add {p.w} %x, %a.w
  %beside = icmp eq {p.w} %least, 0
  br i1 %beside, label %stored, label %counted
stored:
  %lp = getelementptr i8, ptr %a, i64 {LOW}
  %hp = getelementptr i8, ptr %a, i64 {HIGH}
  %l = load double, ptr %lp, align 8
  %h = load double, ptr %hp, align 8
  br label %done
counted:
  %zl = call {p.w} @llvm.ctlz.{p.w}({p.w} %least, i1 false)
  %zm = call {p.w} @llvm.ctlz.{p.w}({p.w} %most, i1 false)
  %zl64 = trunc {p.w} %zl to i64
  %zm64 = trunc {p.w} %zm to i64
  %el = sub i64 %a.e, %zl64
  %em = sub i64 %a.e, %zm64
  %down = add i64 %el, {p.wide - 1}
  %up = add i64 %em, {p.wide}
  %l1 = sitofp i64 %down to double
  %h1 = sitofp i64 %up to double
  br label %done
done:
  %low = phi double [ %l, %stored ], [ %l1, %counted ]
  %high = phi double [ %h, %stored ], [ %h1, %counted ]
  %f1 = insertvalue {{ double, double }} zeroinitializer, double %low, 0
  %f2 = insertvalue {{ double, double }} %f1, double %high, 1
  ret {{ double, double }} %f2
}}

; e^x for x below -2^36: between 0 and 2^-2^36
define internal void @decay(ptr %out, ptr %a) noinline {{
{_fields(p, "a")}
  %x = call {p.w} @llvm.abs.{p.w}({p.w} %a.m, i1 false)
  %least = sub {p.w} %x, %a.w
  %most = add {p.w} %x, %a.w
  %low = call double @power_of_two_times({p.w} %most, i64 %a.e)
  %high = call double @power_of_two_times({p.w} %least, i64 %a.e)
  %far = fcmp oge double %low, {_double(2.0**1000)}
  %l0 = fmul double %low, {_double(-math.log2(math.e))}
  %l = select i1 %far, double {_double(-math.inf)}, double %l0
  %h = fmul double %high, {_double(-math.log2(math.e))}
  call void @put_beside_zero(ptr %out, {p.w} 1, i1 false, i64 {-(1 << 36)})
  call void @put_logarithm(ptr %out, double %l, double %h)
  ret void
}}

; a float64 of n 2^e, which is 2^36 or more, rounded down; one from 2^1000 to 2^1003 where it is larger
define internal double @power_of_two_times({p.w} %n, i64 %e) noinline {{
  %z = call {p.w} @llvm.ctlz.{p.w}({p.w} %n, i1 false)
  %left = shl {p.w} %n, %z
  %top5 = lshr {p.w} %left, {p.wide - 52}
  %top = trunc {p.w} %top5 to i64
  %z64 = trunc {p.w} %z to i64
  %e1 = sub i64 %e, %z64
  %e2 = add i64 %e1, {p.wide - 52}
  %x = uitofp i64 %top to double
  %near = call i64 @llvm.smin.i64(i64 %e2, i64 950)
  %biased = add i64 %near, 1023
  %bits = shl i64 %biased, 52
  %unit = bitcast i64 %bits to double
  %found = fmul double %x, %unit
  ret double %found
}}
"""


# (m +- r) 2^e as a record. The midpoint is shifted to p.bits bits, or to fewer where the radius would exceed RADIUS_BITS bits
def _settle(p: Precision) -> str:
    return f"""
define internal void @settle(ptr %out, {p.w} %m, {p.w} %r, i64 %e) noinline {{
  %abs = call {p.w} @llvm.abs.{p.w}({p.w} %m, i1 false)
  %zm = call {p.w} @llvm.ctlz.{p.w}({p.w} %abs, i1 false)
  %zr = call {p.w} @llvm.ctlz.{p.w}({p.w} %r, i1 false)
  %zm64 = trunc {p.w} %zm to i64
  %zr64 = trunc {p.w} %zr to i64
  %s1 = sub i64 {p.wide - p.bits}, %zm64
  %s2 = sub i64 {p.wide - RADIUS_BITS}, %zr64
  %sharp = icmp eq {p.w} %r, 0
  %s2b = select i1 %sharp, i64 {-p.wide - 88}, i64 %s2
  %s = call i64 @llvm.smax.i64(i64 %s1, i64 %s2b)
  %none = icmp eq {p.w} %m, 0
  %zero = and i1 %none, %sharp
  br i1 %zero, label %nothing, label %something
nothing:
  call void @mark(ptr %out, i64 {FINITE})
  ret void
something:
  %right = icmp sgt i64 %s, 0
  br i1 %right, label %shorter, label %longer
shorter:
  %k = zext i64 %s to {p.w}
  %unit = shl {p.w} 1, %k
  %mask = sub {p.w} %unit, 1
  %low = and {p.w} %m, %mask
  %lost = icmp ne {p.w} %low, 0
  %m1 = ashr {p.w} %m, %k
  %r0 = add {p.w} %r, %mask
  %r1 = lshr {p.w} %r0, %k
  %more = zext i1 %lost to {p.w}
  %r2 = add {p.w} %r1, %more
  br label %made
longer:
  %t = sub i64 0, %s
  %j = zext i64 %t to {p.w}
  %m3 = shl {p.w} %m, %j
  %r3 = shl {p.w} %r, %j
  br label %made
made:
  %m4 = phi {p.w} [ %m1, %shorter ], [ %m3, %longer ]
  %r4 = phi {p.w} [ %r2, %shorter ], [ %r3, %longer ]
  %e4 = add i64 %e, %s
  %shifted = add i64 %e4, {FARTHEST}
  %near = icmp ult i64 %shifted, {2 * FARTHEST}
  br i1 %near, label %kept, label %far
far:
  %abs4 = call {p.w} @llvm.abs.{p.w}({p.w} %m4, i1 false)
  %signed = icmp ugt {p.w} %abs4, %r4
  %small = icmp slt i64 %e4, 0
  %decayed = and i1 %signed, %small
  br i1 %decayed, label %tiny, label %far_away
tiny:
  %below = icmp slt {p.w} %m4, 0
  call void @put_beside_zero(ptr %out, {p.w} 1, i1 %below, i64 {p.stored - FARTHEST})
  %e5 = add i64 %e4, {p.stored}
  %llow = sitofp i64 %e4 to double
  %lhigh = sitofp i64 %e5 to double
  call void @put_logarithm(ptr %out, double %llow, double %lhigh)
  ret void
far_away:
  call void @mark(ptr %out, i64 {UNKNOWN})
  ret void
kept:
  ; a radius that happens to be |m| becomes larger: the number may be 0
  %abs5 = call {p.w} @llvm.abs.{p.w}({p.w} %m4, i1 false)
  %touches = icmp eq {p.w} %abs5, %r4
  %blurred = icmp ne {p.w} %r4, 0
  %meets = and i1 %touches, %blurred
  %apart = zext i1 %meets to {p.w}
  store i64 {FINITE}, ptr %out, align 8
  %ep = getelementptr i8, ptr %out, i64 {EXPONENT}
  store i64 %e4, ptr %ep, align 8
  %hp = getelementptr i8, ptr %out, i64 {HEIGHT}
  store i64 {UNBOUNDED}, ptr %hp, align 8
  %rp = getelementptr i8, ptr %out, i64 {RADIUS}
  %r4a = add {p.w} %r4, %apart
  %r5 = trunc {p.w} %r4a to i64
  store i64 %r5, ptr %rp, align 8
  %mp = getelementptr i8, ptr %out, i64 {MIDPOINT}
  %m5 = trunc {p.w} %m4 to {p.n}
  store {p.n} %m5, ptr %mp, align 8
  ret void
}}
"""


# the bits of numerator and denominator, if a finite number is rational
def _height(p: Precision) -> str:
    return f"""
define internal i64 @height(ptr %a) noinline {{
{_fields(p, "a")}
  %sharp = icmp eq i64 %a.r, 0
  br i1 %sharp, label %exact, label %bounded
bounded:
  %hp = getelementptr i8, ptr %a, i64 {HEIGHT}
  %h = load i64, ptr %hp, align 8
  ret i64 %h
exact:
  %none = icmp eq {p.w} %a.m, 0
  br i1 %none, label %zero, label %some
zero:
  ret i64 1
some:
  %abs = call {p.w} @llvm.abs.{p.w}({p.w} %a.m, i1 false)
  %lead = call {p.w} @llvm.ctlz.{p.w}({p.w} %abs, i1 true)
  %trail = call {p.w} @llvm.cttz.{p.w}({p.w} %abs, i1 true)
  %lead64 = trunc {p.w} %lead to i64
  %trail64 = trunc {p.w} %trail to i64
  %outside = add i64 %lead64, %trail64
  %length = sub i64 {p.wide}, %outside
  %e = add i64 %a.e, %trail64
  %up = call i64 @llvm.smax.i64(i64 %e, i64 0)
  %top = add i64 %length, %up
  %down = sub i64 1, %e
  %both = call i64 @llvm.smax.i64(i64 %top, i64 %down)
  %least = call i64 @llvm.smin.i64(i64 %both, i64 {UNBOUNDED})
  ret i64 %least
}}
"""


# the sum of two finite numbers, of which a has the larger exponent
def _add(p: Precision) -> str:
    return f"""
define internal void @add_ordered(ptr %out, ptr %a, ptr %b) noinline {{
{_fields(p, "a")}{_fields(p, "b")}
  %bnone = icmp eq {p.w} %b.m, 0
  %bsharp = icmp eq i64 %b.r, 0
  %bzero = and i1 %bnone, %bsharp
  br i1 %bzero, label %same, label %sum
same:
  call void @copy(ptr %out, ptr %a)
  ret void
sum:
  %d = sub i64 %a.e, %b.e
  %up = call i64 @llvm.umin.i64(i64 %d, i64 {min(p.bits, p.wide - p.bits - 4)})
  %down = sub i64 %d, %up
  %far = icmp ne i64 %down, 0
  %downm = call i64 @llvm.umin.i64(i64 %down, i64 {p.wide - 1})
  %downr = call i64 @llvm.umin.i64(i64 %down, i64 63)
  %k = zext i64 %up to {p.w}
  %j = zext i64 %downm to {p.w}
  %am = shl {p.w} %a.m, %k
  %aw = shl {p.w} %a.w, %k
  %bm = ashr {p.w} %b.m, %j
  %br = lshr i64 %b.r, %downr
  %slack = select i1 %far, i64 2, i64 0
  %br2 = add i64 %br, %slack
  %bw = zext i64 %br2 to {p.w}
  %m = add {p.w} %am, %bm
  %w = add {p.w} %aw, %bw
  %e = sub i64 %a.e, %up
  %size = call {p.w} @llvm.abs.{p.w}({p.w} %m, i1 false)
  %open = icmp ule {p.w} %size, %w
  br i1 %open, label %signs, label %ball
signs:
  %sa = call i64 @sign(ptr %a)
  %sb = call i64 @sign(ptr %b)
  %agree = icmp eq i64 %sa, %sb
  %known = icmp ne i64 %sa, 2
  %known2 = icmp ne i64 %sb, 2
  %both = and i1 %known, %known2
  br i1 %both, label %order, label %ball
order:
  %loga = call {{ double, double }} @logarithm(ptr %a)
  %logb = call {{ double, double }} @logarithm(ptr %b)
  %la = extractvalue {{ double, double }} %loga, 0
  %ha2 = extractvalue {{ double, double }} %loga, 1
  %lb = extractvalue {{ double, double }} %logb, 0
  %hb2 = extractvalue {{ double, double }} %logb, 1
  %aless = fsub double %la, 1.0
  %bless = fsub double %lb, 1.0
  %alarge = fcmp ogt double %aless, %hb2
  %blarge = fcmp ogt double %bless, %ha2
  %one = or i1 %alarge, %blarge
  %signed = or i1 %agree, %one
  br i1 %signed, label %zero, label %ball
zero:
  ; less than twice the larger one, and more than half of it; than all of it if the signs agree
  %most = add {p.w} %size, %w
  %sign = select i1 %blarge, i64 %sb, i64 %sa
  %below = icmp eq i64 %sign, -1
  call void @put_beside_zero(ptr %out, {p.w} %most, i1 %below, i64 %e)
  %l0 = call double @llvm.maxnum.f64(double %la, double %lb)
  %h0 = call double @llvm.maxnum.f64(double %ha2, double %hb2)
  %l1 = fsub double %l0, 1.0
  %h1 = fadd double %h0, 1.0
  call void @put_logarithm(ptr %out, double %l1, double %h1)
  ret void
ball:
  call void @settle(ptr %out, {p.w} %m, {p.w} %w, i64 %e)
  ret void
}}

define internal void @add_finite(ptr %out, ptr %a, ptr %b) noinline {{
  %ap = getelementptr i8, ptr %a, i64 {EXPONENT}
  %ae = load i64, ptr %ap, align 8
  %bp = getelementptr i8, ptr %b, i64 {EXPONENT}
  %be = load i64, ptr %bp, align 8
  %am = getelementptr i8, ptr %a, i64 {MIDPOINT}
  %an = load {p.n}, ptr %am, align 8
  %ar = getelementptr i8, ptr %a, i64 {RADIUS}
  %as = load i64, ptr %ar, align 8
  %n = icmp eq {p.n} %an, 0
  %s = icmp eq i64 %as, 0
  %azero = and i1 %n, %s
  %below = icmp slt i64 %ae, %be
  %turn = or i1 %azero, %below
  %bm = getelementptr i8, ptr %b, i64 {MIDPOINT}
  %bn = load {p.n}, ptr %bm, align 8
  %brp = getelementptr i8, ptr %b, i64 {RADIUS}
  %bs = load i64, ptr %brp, align 8
  %bn0 = icmp eq {p.n} %bn, 0
  %bs0 = icmp eq i64 %bs, 0
  %bzero = and i1 %bn0, %bs0
  %keep = xor i1 %bzero, true
  %swap = and i1 %turn, %keep
  %first = select i1 %swap, ptr %b, ptr %a
  %second = select i1 %swap, ptr %a, ptr %b
  call void @add_ordered(ptr %out, ptr %first, ptr %second)
  ret void
}}
"""


def _times(p: Precision, x: str, y: str) -> str:
    """The instruction of a product. LLVM takes long to compile one of long integers, so that they have a function."""
    return f"call {p.w} @times({p.w} {x}, {p.w} {y})" if p.drops else f"mul {p.w} {x}, {y}"


def _magnitudes(p: Precision) -> str:
    """The product of %x and %y without its lowest bits, for which there is no room, and whether these were not 0."""
    if not p.drops:
        return f"""
  %product = mul {p.w} %x, %y
  %drop = add i64 0, 0
  %lack = add {p.w} 0, 0
"""
    return f"""
  %x.z = call {p.w} @llvm.ctlz.{p.w}({p.w} %x, i1 false)
  %y.z = call {p.w} @llvm.ctlz.{p.w}({p.w} %y, i1 false)
  %z = add {p.w} %x.z, %y.z
  %z64 = trunc {p.w} %z to i64
  %over = sub i64 {p.wide + 2}, %z64
  %drop = call i64 @llvm.smax.i64(i64 %over, i64 0)
  %drop5 = zext i64 %drop to {p.w}
  %y.high = lshr {p.w} %y, %drop5
  %y.cut = shl {p.w} %y.high, %drop5
  %y.low = sub {p.w} %y, %y.cut
  %high = {_times(p, "%x", "%y.high")}
  %low = {_times(p, "%x", "%y.low")}
  %carry = lshr {p.w} %low, %drop5
  %product = add {p.w} %high, %carry
  %back = shl {p.w} %carry, %drop5
  %some = icmp ne {p.w} %low, %back
  %lack = zext i1 %some to {p.w}
"""


def _dropped(p: Precision) -> str:
    """The radius of the product without these bits: a bit more than %w3."""
    if not p.drops:
        return f"  %w = add {p.w} %w3, %lack"
    return f"""
  %w4 = lshr {p.w} %w3, %drop5
  %w5 = add {p.w} %w4, 1
  %w = add {p.w} %w5, %lack"""


def _product_beside_zero(p: Precision, most: str, below: str, exponent: str, add: str, low: str, high: str) -> str:
    """A product or quotient beside zero, with the logarithm of %a plus or minus an interval of that of %b."""
    return f"""  %loga = call {{ double, double }} @logarithm(ptr %a)
  %logb = call {{ double, double }} @logarithm(ptr %b)
  call void @put_beside_zero(ptr %out, {p.w} {most}, i1 {below}, i64 {exponent})
  %la = extractvalue {{ double, double }} %loga, 0
  %ha = extractvalue {{ double, double }} %loga, 1
  %lb = extractvalue {{ double, double }} %logb, 0
  %hb = extractvalue {{ double, double }} %logb, 1
  %l = {add} double %la, {low}
  %h = {add} double %ha, {high}
  call void @put_logarithm(ptr %out, double %l, double %h)"""


def _multiply(p: Precision) -> str:
    return f"""
define internal {p.w} @times({p.w} %x, {p.w} %y) noinline {{
  %product = mul {p.w} %x, %y
  ret {p.w} %product
}}

define internal void @multiply_finite(ptr %out, ptr %a, ptr %b) noinline {{
{_fields(p, "a")}{_fields(p, "b")}
  %x = call {p.w} @llvm.abs.{p.w}({p.w} %a.m, i1 false)
  %y = call {p.w} @llvm.abs.{p.w}({p.w} %b.m, i1 false)
{_magnitudes(p)}
  %aneg = icmp slt {p.w} %a.m, 0
  %bneg = icmp slt {p.w} %b.m, 0
  %turned = xor i1 %aneg, %bneg
  %minus = sub {p.w} 0, %product
  %m = select i1 %turned, {p.w} %minus, {p.w} %product
  %e0 = add i64 %a.e, %b.e
  %e = add i64 %e0, %drop
  %rs = or i64 %a.r, %b.r
  %sharp = icmp eq i64 %rs, 0
  br i1 %sharp, label %exact, label %bounded
exact:
  call void @settle(ptr %out, {p.w} %m, {p.w} %lack, i64 %e)
  ret void
bounded:
  %yb = add {p.w} %y, %b.w
  %sa = call i64 @sign(ptr %a)
  %sb = call i64 @sign(ptr %b)
  %ta = icmp eq {p.w} %x, %a.w
  %tb = icmp eq {p.w} %y, %b.w
  %ka = icmp ne i64 %sa, 2
  %kb = icmp ne i64 %sb, 2
  %t = or i1 %ta, %tb
  %known = and i1 %ka, %kb
  %beside = and i1 %t, %known
  br i1 %beside, label %zero, label %ball
zero:
  %xa = add {p.w} %x, %a.w
  %most = {_times(p, "%xa", "%yb")}
  %below = icmp ne i64 %sa, %sb
{_product_beside_zero(p, "%most", "%below", "%e0", "fadd", "%lb", "%hb")}
  ret void
ball:
  %w1 = {_times(p, "%x", "%b.w")}
  %w2 = {_times(p, "%yb", "%a.w")}
  %w3 = add {p.w} %w1, %w2
{_dropped(p)}
  call void @settle(ptr %out, {p.w} %m, {p.w} %w, i64 %e)
  ret void
}}
"""


# a / b of midpoints, for numbers A and B within ra and rb of them: |a / b - A / B| <= (ra + |a / b| rb) / (|b| - rb), and
# rb is at most half of |b|. Let Y be |b| - rb, shifted as b is, to bits + 1 bits. In units of the quotient's last bit,
# ra / Y is at most ra c 2^-30, shifted as a is, and |a / b| is less than 2^(bits + 2). A midpoint has at most bits + 1 bits,
# since rounding down may give -2^bits.
def _divide(p: Precision) -> str:
    return f"""
define internal void @divide_finite(ptr %out, ptr %a, ptr %b) noinline {{
{_fields(p, "a")}{_fields(p, "b")}
  %x = call {p.w} @llvm.abs.{p.w}({p.w} %a.m, i1 false)
  %y = call {p.w} @llvm.abs.{p.w}({p.w} %b.m, i1 false)
  %rb2 = shl {p.w} %b.w, 1
  %wide = icmp ule {p.w} %y, %rb2
  br i1 %wide, label %lost, label %go
lost:
  call void @mark(ptr %out, i64 {UNKNOWN})
  ret void
go:
  %tx = icmp eq {p.w} %x, %a.w
  br i1 %tx, label %zero, label %ball
zero:
  ; |b| is more than 2^(length - 2), so that 1 / |b| is less than 2^(2 - length)
  %below0 = icmp slt {p.w} %a.m, 0
  %bbelow = icmp slt {p.w} %b.m, 0
  %turns = xor i1 %below0, %bbelow
  %zb = call {p.w} @llvm.ctlz.{p.w}({p.w} %y, i1 false)
  %zb64 = trunc {p.w} %zb to i64
  %xa = add {p.w} %x, %a.w
  %eab = sub i64 %a.e, %b.e
  %ez = add i64 %eab, %zb64
  %et = sub i64 %ez, {p.wide - 2}
{_product_beside_zero(p, "%xa", "%turns", "%et", "fsub", "%hb", "%lb")}
  ret void
ball:
  %zx = call {p.w} @llvm.ctlz.{p.w}({p.w} %x, i1 false)
  %zy = call {p.w} @llvm.ctlz.{p.w}({p.w} %y, i1 false)
  %zx64 = trunc {p.w} %zx to i64
  %zy64 = trunc {p.w} %zy to i64
  %lx = sub i64 {p.wide}, %zx64
  %ly = sub i64 {p.wide}, %zy64
  %kx = sub i64 {p.bits + 1}, %lx
  %ky = sub i64 {p.bits + 1}, %ly
  %kx5 = zext i64 %kx to {p.w}
  %ky5 = zext i64 %ky to {p.w}
  %xs = shl {p.w} %x, %kx5
  %ys = shl {p.w} %y, %ky5
  %xs2 = trunc {p.w} %xs to {p.n}
  %ys2 = trunc {p.w} %ys to {p.n}
  br label %loop
loop:
  %i = phi i64 [ 0, %ball ], [ %i1, %loop ]
  %rem = phi {p.n} [ %xs2, %ball ], [ %rem2, %loop ]
  %q = phi {p.n} [ 0, %ball ], [ %q2, %loop ]
  %fits = icmp uge {p.n} %rem, %ys2
  %part = select i1 %fits, {p.n} %ys2, {p.n} 0
  %rem1 = sub {p.n} %rem, %part
  %rem2 = shl {p.n} %rem1, 1
  %q1 = shl {p.n} %q, 1
  %digit = zext i1 %fits to {p.n}
  %q2 = or {p.n} %q1, %digit
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, {p.bits + 2}
  br i1 %more, label %loop, label %done
done:
  %some = icmp ne {p.n} %rem2, 0
  %lack = zext i1 %some to {p.w}
  %qw = zext {p.n} %q2 to {p.w}
  %an = icmp slt {p.w} %a.m, 0
  %bn = icmp slt {p.w} %b.m, 0
  %below = xor i1 %an, %bn
  %minus = sub {p.w} 0, %qw
  %m = select i1 %below, {p.w} %minus, {p.w} %qw
  ; 2^62 / (the leading 32 bits of |b| - rb), rounded up
  %rbs = shl {p.w} %b.w, %ky5
  %least = sub {p.w} %ys, %rbs
  %lead5 = lshr {p.w} %least, {p.bits + 1 - 32}
  %lead = trunc {p.w} %lead5 to i64
  %c0 = udiv i64 {1 << 62}, %lead
  %c = add i64 %c0, 1
  %c5 = zext i64 %c to {p.w}
  %wa = mul {p.w} %a.w, %c5
  %wb = mul {p.w} %b.w, %c5
  %was = shl {p.w} %wa, %kx5
  %ky6 = add {p.w} %ky5, 1
  %wbs = shl {p.w} %wb, %ky6
  %wa30 = lshr {p.w} %was, 30
  %wb30 = lshr {p.w} %wbs, 30
  %w1 = add {p.w} %wa30, 1
  %w2 = add {p.w} %wb30, 1
  %w3 = add {p.w} %w1, %w2
  %rs = or i64 %a.r, %b.r
  %sharp = icmp eq i64 %rs, 0
  %w4 = select i1 %sharp, {p.w} 0, {p.w} %w3
  %w = add {p.w} %w4, %lack
  %e1 = sub i64 %a.e, %b.e
  %e2 = add i64 %e1, %lx
  %e3 = sub i64 %e2, %ly
  %e = sub i64 %e3, {p.bits + 1}
  call void @settle(ptr %out, {p.w} %m, {p.w} %w, i64 %e)
  ret void
}}
"""


# the square root of a positive number, digit by digit: those of m 2^(k + bits), which has 2 bits + 1 or + 2 digits
def _root(p: Precision) -> str:
    return f"""
define internal void @root_positive(ptr %out, ptr %a) noinline {{
entry:
{_fields(p, "a")}
  %z = call {p.w} @llvm.ctlz.{p.w}({p.w} %a.m, i1 false)
  %z64 = trunc {p.w} %z to i64
  %k0 = sub i64 %z64, {p.wide - p.bits - 2}
  %e0 = sub i64 %a.e, %k0
  %odd = and i64 %e0, 1
  %k = sub i64 %k0, %odd
  %k5 = zext i64 %k to {p.w}
  %all5 = shl {p.w} %a.m, %k5
  %all = trunc {p.w} %all5 to {p.n}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
  %n = phi {p.n} [ %all, %entry ], [ %n1, %loop ]
  %left = phi {p.n} [ 0, %entry ], [ %left1, %loop ]
  %root = phi {p.n} [ 0, %entry ], [ %root1, %loop ]
  %pair0 = lshr {p.n} %n, {p.bits}
  %pair = and {p.n} %pair0, 3
  %n1 = shl {p.n} %n, 2
  %left0 = shl {p.n} %left, 2
  %more = or {p.n} %left0, %pair
  %root4 = shl {p.n} %root, 2
  %try = or {p.n} %root4, 1
  %fits = icmp uge {p.n} %more, %try
  %part = select i1 %fits, {p.n} %try, {p.n} 0
  %left1 = sub {p.n} %more, %part
  %root2 = shl {p.n} %root, 1
  %digit = zext i1 %fits to {p.n}
  %root1 = or {p.n} %root2, %digit
  %i1 = add i64 %i, 1
  %again = icmp ult i64 %i1, {p.bits + 1}
  br i1 %again, label %loop, label %done
done:
  %some = icmp ne {p.n} %left1, 0
  %lack = zext i1 %some to {p.w}
  %r1 = shl {p.w} %a.w, %k5
  %r = add {p.w} %r1, %lack
  %m = zext {p.n} %root1 to {p.w}
  %e1 = sub i64 %a.e, %k
  %e2 = sub i64 %e1, {p.bits}
  %e = ashr i64 %e2, 1
  call void @settle(ptr %out, {p.w} %m, {p.w} %r, i64 %e)
  ret void
}}
"""


# the sign of a finite number: 1, 0 or -1; 2 if its radius leaves it undecided
def _sign(p: Precision) -> str:
    return f"""
define internal i64 @sign(ptr %a) noinline {{
{_fields(p, "a")}
  %above = icmp sge {p.w} %a.m, %a.w
  %minus = sub {p.w} 0, %a.w
  %below = icmp sle {p.w} %a.m, %minus
  %wm = or {p.w} %a.m, %a.w
  %zero = icmp eq {p.w} %wm, 0
  %s1 = select i1 %below, i64 -1, i64 2
  %s2 = select i1 %above, i64 1, i64 %s1
  %s3 = select i1 %zero, i64 0, i64 %s2
  ret i64 %s3
}}
"""


def functions(p: Precision) -> list[str]:
    made = (_mark, _beside_zero, _settle, _height, _add, _multiply, _divide, _root, _sign)
    return [function(p) for function in made]
