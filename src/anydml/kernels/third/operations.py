"""Operations of extended real numbers as functions in LLVM IR, with IEEE 754's rules for zeros, infinities and NaN.

If a result depends on a sign or an order that a radius leaves undecided, it is a number of unknown kind, or UNDECIDED.
"""

from __future__ import annotations

from anydml.kernels.third import balls
from anydml.kernels.third.balls import (
    EXPONENT,
    FARTHEST,
    FINITE,
    HEIGHT,
    INFINITE,
    MIDPOINT,
    NAN,
    NEAR,
    NEGATIVE_INFINITE,
    NEGATIVE_ZERO,
    RADIUS,
    SURE,
    UNKNOWN,
    Precision,
)

UNDECIDED = 2  # a truth, beside 0 and 1
SPECIAL = {  # kinds as float64
    NEGATIVE_ZERO: "0x8000000000000000",
    INFINITE: "0x7FF0000000000000",
    NEGATIVE_INFINITE: "0xFFF0000000000000",
    NAN: "0x7FF8000000000000",
}


def field(a: str, name: str, offset: int, kind: str = "i64") -> str:
    """Instructions that load a field of a number."""
    return f"""  %{a}.{name}.at = getelementptr i8, ptr %{a}, i64 {offset}
  %{a}.{name} = load {kind}, ptr %{a}.{name}.at, align 8
"""


# a float64 of the same kind and sign: +-1 if the number is finite and not zero, 3 if its sign is undecided
def _shadow(p: Precision) -> str:
    return f"""
define internal double @shadow(ptr %a) noinline {{
  %kind = load i64, ptr %a, align 8
  switch i64 %kind, label %open [ i64 {FINITE}, label %finite
    i64 {NEGATIVE_ZERO}, label %zero
    i64 {INFINITE}, label %above
    i64 {NEGATIVE_INFINITE}, label %below
    i64 {NAN}, label %nan ]
open:
  ret double 3.0
zero:
  ret double {SPECIAL[NEGATIVE_ZERO]}
above:
  ret double {SPECIAL[INFINITE]}
below:
  ret double {SPECIAL[NEGATIVE_INFINITE]}
nan:
  ret double {SPECIAL[NAN]}
finite:
  %sign = call i64 @sign(ptr %a)
  %known = icmp ne i64 %sign, 2
  %number = sitofp i64 %sign to double
  %found = select i1 %known, double %number, double 3.0
  ret double %found
}}

define internal void @put_special(ptr %out, double %x) noinline {{
  %bits = bitcast double %x to i64
  %nan = fcmp uno double %x, 0.0
  %zero = fcmp oeq double %x, 0.0
  %below = icmp slt i64 %bits, 0
  %ends = select i1 %below, i64 {NEGATIVE_INFINITE}, i64 {INFINITE}
  %zeros = select i1 %below, i64 {NEGATIVE_ZERO}, i64 {FINITE}
  %k1 = select i1 %zero, i64 %zeros, i64 %ends
  %k2 = select i1 %nan, i64 {NAN}, i64 %k1
  call void @mark(ptr %out, i64 %k2)
  ret void
}}
"""


def _copy(p: Precision) -> str:
    return f"""
define internal void @copy(ptr %out, ptr %a) noinline {{
  %x = load i{8 * p.size}, ptr %a, align 8
  store i{8 * p.size} %x, ptr %out, align 8
  ret void
}}
"""


def _add(p: Precision) -> str:
    return f"""
define internal void @add(ptr %out, ptr %a, ptr %b) noinline {{
  %ka = load i64, ptr %a, align 8
  %kb = load i64, ptr %b, align 8
  %both = or i64 %ka, %kb
  %plain = icmp eq i64 %both, {FINITE}
  br i1 %plain, label %finite, label %unknown
finite:
  call void @add_finite(ptr %out, ptr %a, ptr %b)
  ret void
unknown:
  %ua = icmp eq i64 %ka, {UNKNOWN}
  %ub = icmp eq i64 %kb, {UNKNOWN}
  %u = or i1 %ua, %ub
  br i1 %u, label %lost, label %first
lost:
  call void @mark(ptr %out, i64 {UNKNOWN})
  ret void
first:
  %za = icmp eq i64 %ka, {NEGATIVE_ZERO}
  br i1 %za, label %takeb, label %second
takeb:
  call void @copy(ptr %out, ptr %b)
  ret void
second:
  %zb = icmp eq i64 %kb, {NEGATIVE_ZERO}
  br i1 %zb, label %takea, label %ends
takea:
  call void @copy(ptr %out, ptr %a)
  ret void
ends:
  %x = call double @shadow(ptr %a)
  %y = call double @shadow(ptr %b)
  %z = fadd double %x, %y
  call void @put_special(ptr %out, double %z)
  ret void
}}

define internal void @negate(ptr %out, ptr %a) noinline {{
  %k = load i64, ptr %a, align 8
  switch i64 %k, label %same [ i64 {FINITE}, label %finite
    i64 {NEGATIVE_ZERO}, label %zero
    i64 {INFINITE}, label %below
    i64 {NEGATIVE_INFINITE}, label %above ]
same:
  call void @copy(ptr %out, ptr %a)
  ret void
zero:
  call void @mark(ptr %out, i64 {FINITE})
  ret void
below:
  call void @mark(ptr %out, i64 {NEGATIVE_INFINITE})
  ret void
above:
  call void @mark(ptr %out, i64 {INFINITE})
  ret void
finite:
  %s = call i64 @sign(ptr %a)
  %none = icmp eq i64 %s, 0
  br i1 %none, label %nothing, label %turn
nothing:
  call void @mark(ptr %out, i64 {NEGATIVE_ZERO})
  ret void
turn:
  call void @copy(ptr %out, ptr %a)
  %p = getelementptr i8, ptr %out, i64 {MIDPOINT}
  %m = load {p.n}, ptr %p, align 8
  %n = sub {p.n} 0, %m
  store {p.n} %n, ptr %p, align 8
  ret void
}}

define internal void @subtract(ptr %out, ptr %a, ptr %b) noinline {{
  %t = alloca [{p.size} x i8], align 8
  call void @negate(ptr %t, ptr %b)
  call void @add(ptr %out, ptr %a, ptr %t)
  ret void
}}
"""


def _sum(p: Precision) -> str:
    """The sum and the difference of two numbers of a statement, which may be zero by definition; see `balls`."""
    if not p.settles:
        return ""
    return f"""
define internal void @sum(ptr %out, ptr %a, ptr %b) noinline {{
  %t = alloca [{p.size} x i8], align 8
  call void @add(ptr %t, ptr %a, ptr %b)
  %ka = load i64, ptr %a, align 8
  %kb = load i64, ptr %b, align 8
  %kt = load i64, ptr %t, align 8
  %kab = or i64 %ka, %kb
  %kinds = or i64 %kab, %kt
  %plain = icmp eq i64 %kinds, {FINITE}
  br i1 %plain, label %finite, label %keep
keep:
  call void @copy(ptr %out, ptr %t)
  ret void
finite:
{field("t", "e", EXPONENT)}{field("t", "r", RADIUS)}{field("t", "m", MIDPOINT, p.n)}
  %m = sext {p.n} %t.m to {p.w}
  %size = call {p.w} @llvm.abs.{p.w}({p.w} %m, i1 false)
  %r = zext i64 %t.r to {p.w}
  %limit = add {p.w} %size, %r
  %zl = call {p.w} @llvm.ctlz.{p.w}({p.w} %limit, i1 false)
  %zr = call {p.w} @llvm.ctlz.{p.w}({p.w} %r, i1 false)
  %zl64 = trunc {p.w} %zl to i64
  %zr64 = trunc {p.w} %zr to i64
  %left = sub i64 %zr64, %zl64
  %few = icmp slt i64 %left, {SURE}
  %blurred = icmp ne i64 %t.r, 0
  %apart = icmp ne {p.w} %size, %r
  %poor0 = and i1 %few, %blurred
  %poor = and i1 %poor0, %apart
  br i1 %poor, label %doubt, label %keep
doubt:
  ; its magnitude is less than 2^top
  %length = sub i64 {p.wide}, %zl64
  %top = add i64 %length, %t.e
  %ha = call i64 @height(ptr %a)
  %hb = call i64 @height(ptr %b)
  %hab = add i64 %ha, %hb
  %scaled = add i64 %top, %hab
  %fraction = icmp slt i64 %scaled, 0
  %la = call i64 @length(ptr %a)
  %lb = call i64 @length(ptr %b)
  %larger = call i64 @llvm.smax.i64(i64 %la, i64 %lb)
  %bound = sub i64 %larger, {NEAR + 1}
  %small = icmp sle i64 %top, %bound
  %none = and i1 %fraction, %small
  %kind = select i1 %none, i64 {FINITE}, i64 {UNKNOWN}
  call void @mark(ptr %out, i64 %kind)
  ret void
}}

define internal void @difference(ptr %out, ptr %a, ptr %b) noinline {{
  %t = alloca [{p.size} x i8], align 8
  call void @negate(ptr %t, ptr %b)
  call void @sum(ptr %out, ptr %a, ptr %t)
  ret void
}}

; A sum of several terms, after its last one: unknown if hardly anything is left of the largest of them, whose length is kept
define internal void @since(ptr %a, ptr %term, ptr %largest) noinline {{
  %kt = load i64, ptr %term, align 8
  %finite = icmp eq i64 %kt, {FINITE}
  br i1 %finite, label %noted, label %done
noted:
  %lt = call i64 @length(ptr %term)
  %before = load i64, ptr %largest, align 8
  %now = call i64 @llvm.smax.i64(i64 %before, i64 %lt)
  store i64 %now, ptr %largest, align 8
  %ka = load i64, ptr %a, align 8
  %plain = icmp eq i64 %ka, {FINITE}
  br i1 %plain, label %judged, label %done
judged:
{field("a", "m", MIDPOINT, p.n)}
  %some = icmp ne {p.n} %a.m, 0
  %la = call i64 @length(ptr %a)
  %far = sub i64 %now, {NEAR - 88}
  %little = icmp slt i64 %la, %far
  %unsure = and i1 %some, %little
  br i1 %unsure, label %lost, label %done
lost:
  call void @mark(ptr %a, i64 {UNKNOWN})
  ret void
done:
  ret void
}}

; n, where the magnitude of a finite number's midpoint is from 2^(n - 1) to 2^n
define internal i64 @length(ptr %a) noinline {{
{field("a", "e", EXPONENT)}{field("a", "m", MIDPOINT, p.n)}
  %m = sext {p.n} %a.m to {p.w}
  %size = call {p.w} @llvm.abs.{p.w}({p.w} %m, i1 false)
  %z = call {p.w} @llvm.ctlz.{p.w}({p.w} %size, i1 false)
  %z64 = trunc {p.w} %z to i64
  %none = icmp eq {p.w} %size, 0
  %length = sub i64 {p.wide}, %z64
  %n = add i64 %length, %a.e
  %found = select i1 %none, i64 {-4 * FARTHEST}, i64 %n
  ret i64 %found
}}
"""


def _product(name: str, finite: str, instruction: str) -> str:
    """A product or quotient. Unless both numbers are finite and not zero, it is that of their float64 shadows."""
    return f"""
define internal void @{name}(ptr %out, ptr %a, ptr %b) noinline {{
  %ka = load i64, ptr %a, align 8
  %kb = load i64, ptr %b, align 8
  %both = or i64 %ka, %kb
  %plain = icmp eq i64 %both, {FINITE}
  br i1 %plain, label %look, label %special
look:
  %sa = call i64 @sign(ptr %a)
  %sb = call i64 @sign(ptr %b)
  %za = icmp eq i64 %sa, 0
  %zb = icmp eq i64 %sb, 0
  %z = or i1 %za, %zb
  br i1 %z, label %special, label %finite
finite:
  call void @{finite}(ptr %out, ptr %a, ptr %b)
  ret void
special:
  %x = call double @shadow(ptr %a)
  %y = call double @shadow(ptr %b)
  %ux = fcmp oeq double %x, 3.0
  %uy = fcmp oeq double %y, 3.0
  %u = or i1 %ux, %uy
  br i1 %u, label %lost, label %known
lost:
  call void @mark(ptr %out, i64 {UNKNOWN})
  ret void
known:
  %w = {instruction} double %x, %y
  call void @put_special(ptr %out, double %w)
  ret void
}}
"""


def _root(p: Precision) -> str:
    return f"""
define internal void @root(ptr %out, ptr %a) noinline {{
  %x = call double @shadow(ptr %a)
  %one = fcmp oeq double %x, 1.0
  br i1 %one, label %positive, label %others
positive:
  call void @root_positive(ptr %out, ptr %a)
  ret void
others:
  %below = fcmp olt double %x, 0.0
  br i1 %below, label %nan, label %third
nan:
  call void @mark(ptr %out, i64 {NAN})
  ret void
third:
  %open = fcmp oeq double %x, 3.0
  br i1 %open, label %lost, label %same
lost:
  call void @mark(ptr %out, i64 {UNKNOWN})
  ret void
same:
  call void @copy(ptr %out, ptr %a)
  ret void
}}
"""


# -1, 0 or 1; 2 if the order is undecided, 3 if one number is NaN
def _compare(p: Precision) -> str:
    return f"""
define internal i64 @compare(ptr %a, ptr %b) noinline {{
  %t = alloca [{p.size} x i8], align 8
  %ka = load i64, ptr %a, align 8
  %kb = load i64, ptr %b, align 8
  %ua = icmp eq i64 %ka, {UNKNOWN}
  %ub = icmp eq i64 %kb, {UNKNOWN}
  %u = or i1 %ua, %ub
  br i1 %u, label %open, label %nans
open:
  ret i64 2
nans:
  %na = icmp eq i64 %ka, {NAN}
  %nb = icmp eq i64 %kb, {NAN}
  %n = or i1 %na, %nb
  br i1 %n, label %nan, label %ends
nan:
  ret i64 3
ends:
  %ea = icmp uge i64 %ka, {INFINITE}
  %eb = icmp uge i64 %kb, {INFINITE}
  %e = or i1 %ea, %eb
  br i1 %e, label %far, label %near
far:
  %x0 = call double @shadow(ptr %a)
  %y0 = call double @shadow(ptr %b)
  %lt = fcmp olt double %x0, %y0
  %gt = fcmp ogt double %x0, %y0
  %f1 = select i1 %gt, i64 1, i64 0
  %f2 = select i1 %lt, i64 -1, i64 %f1
  ret i64 %f2
near:
  call void @{p.difference}(ptr %t, ptr %a, ptr %b)
  %k = load i64, ptr %t, align 8
  %zero = icmp eq i64 %k, {NEGATIVE_ZERO}
  br i1 %zero, label %equal, label %differ
equal:
  ret i64 0
differ:
  %finite = icmp eq i64 %k, {FINITE}
  br i1 %finite, label %signed, label %open
signed:
  %s = call i64 @sign(ptr %t)
  ret i64 %s
}}
"""


def _test(name: str, holds: str) -> str:
    """A comparison, by what holds of the order %c."""
    return f"""
define internal i64 @{name}(ptr %a, ptr %b) noinline {{
  %c = call i64 @compare(ptr %a, ptr %b)
  %yes = icmp {holds}
  %r = zext i1 %yes to i64
  %open = icmp eq i64 %c, 2
  %t = select i1 %open, i64 {UNDECIDED}, i64 %r
  ret i64 %t
}}
"""


_TESTS = [_test("is_less", "eq i64 %c, -1"), _test("is_less_equal", "sle i64 %c, 0"), _test("is_equal", "eq i64 %c, 0")]


# the larger number; if the order is undecided, an interval that contains both. NaN if either is NaN; -0 < +0
def _maximum(p: Precision) -> str:
    return f"""
define internal void @maximum(ptr %out, ptr %a, ptr %b) noinline {{
  %t = alloca [{p.size} x i8], align 8
  %c = call i64 @compare(ptr %a, ptr %b)
  switch i64 %c, label %open [ i64 -1, label %second
    i64 0, label %equal
    i64 1, label %first
    i64 3, label %nan ]
nan:
  call void @mark(ptr %out, i64 {NAN})
  ret void
equal:
  %ka = load i64, ptr %a, align 8
  %below = icmp eq i64 %ka, {NEGATIVE_ZERO}
  br i1 %below, label %second, label %first
first:
  call void @copy(ptr %out, ptr %a)
  ret void
second:
  call void @copy(ptr %out, ptr %b)
  ret void
open:
  %kx = load i64, ptr %a, align 8
  %ky = load i64, ptr %b, align 8
  %kxy = or i64 %kx, %ky
  %plain = icmp eq i64 %kxy, {FINITE}
  br i1 %plain, label %hull, label %lost
lost:
  call void @mark(ptr %out, i64 {UNKNOWN})
  ret void
hull:
  ; a, and the interval of b - a beside it: b - a lies within (|m| + r) 2^e of 0, which is added to a as a radius
  call void @subtract(ptr %t, ptr %b, ptr %a)
  %kt = load i64, ptr %t, align 8
  %known = icmp eq i64 %kt, {FINITE}
  br i1 %known, label %widen, label %lost
widen:
{field("t", "e", EXPONENT)}{field("t", "r", RADIUS)}{field("t", "m", MIDPOINT, p.n)}
  %m5 = sext {p.n} %t.m to {p.w}
  %abs = call {p.w} @llvm.abs.{p.w}({p.w} %m5, i1 false)
  %r5 = zext i64 %t.r to {p.w}
  %w = add {p.w} %abs, %r5
  call void @settle(ptr %t, {p.w} 0, {p.w} %w, i64 %t.e)
  call void @add(ptr %out, ptr %a, ptr %t)
  ret void
}}

define internal void @minimum(ptr %out, ptr %a, ptr %b) noinline {{
  %x = alloca [{p.size} x i8], align 8
  %y = alloca [{p.size} x i8], align 8
  call void @negate(ptr %x, ptr %a)
  call void @negate(ptr %y, ptr %b)
  call void @maximum(ptr %x, ptr %x, ptr %y)
  call void @negate(ptr %out, ptr %x)
  ret void
}}
"""


FLOOR, CEIL, TRUNCATE, HALF_TO_EVEN, HALF_AWAY = range(5)


# the multiple of 2^unit nearest to a. The result is 1 if a is this number, also by definition, else 0; UNDECIDED if not known
def _beside(p: Precision) -> str:
    if not p.settles:
        return ""
    return f"""
define internal i64 @beside(ptr %out, ptr %a, i64 %unit) noinline {{
  %t = alloca [{p.size} x i8], align 8
{field("a", "e", EXPONENT)}{field("a", "r", RADIUS)}{field("a", "m", MIDPOINT, p.n)}
  %s = sub i64 %unit, %a.e
  %coarse = icmp sgt i64 %s, 0
  %fine = icmp slt i64 %s, {p.stored}
  %blurred = icmp ne i64 %a.r, 0
  %both = and i1 %coarse, %fine
  %may = and i1 %both, %blurred
  br i1 %may, label %look, label %no
no:
  ret i64 0
look:
  %m = sext {p.n} %a.m to {p.w}
  %q = call {p.w} @whole_of({p.w} %m, i64 %s, i64 {HALF_TO_EVEN})
  %none = icmp eq {p.w} %q, 0
  br i1 %none, label %no, label %some
some:
  call void @settle(ptr %out, {p.w} %q, {p.w} 0, i64 %unit)
  call void @difference(ptr %t, ptr %a, ptr %out)
  %kind = load i64, ptr %t, align 8
  %known = icmp eq i64 %kind, {FINITE}
  br i1 %known, label %signed, label %open
open:
  ret i64 {UNDECIDED}
signed:
  %sign = call i64 @sign(ptr %t)
  %zero = icmp eq i64 %sign, 0
  %found = zext i1 %zero to i64
  ret i64 %found
}}
"""


def _on_boundary(p: Precision) -> str:
    """In @to_whole: numbers that are half an integer by definition."""
    if not p.settles:
        return ""
    return f"""  %on = call i64 @beside(ptr %t, ptr %a, i64 -1)
  switch i64 %on, label %beyond [ i64 1, label %here
    i64 {UNDECIDED}, label %lost ]
here:
  call void @to_whole(ptr %out, ptr %t, i64 %how)
  ret void
beyond:
"""


# x 2^-s rounded to an integer as %how says, where s is 1 to p.stored - 1
def _whole(p: Precision) -> str:
    return f"""
define internal {p.w} @whole_of({p.w} %x, i64 %s, i64 %how) noinline {{
  %k = zext i64 %s to {p.w}
  %q = ashr {p.w} %x, %k
  %back = shl {p.w} %q, %k
  %rest = sub {p.w} %x, %back
  %some = icmp ne {p.w} %rest, 0
  %up = add {p.w} %q, 1
  %h = sub {p.w} %k, 1
  %half = shl {p.w} 1, %h
  %over = icmp ugt {p.w} %rest, %half
  %tie = icmp eq {p.w} %rest, %half
  %below = icmp slt {p.w} %x, 0
  %bit = trunc {p.w} %q to i1
  %notbelow = xor i1 %below, true
  switch i64 %how, label %floor [ i64 {CEIL}, label %ceil
    i64 {TRUNCATE}, label %truncate
    i64 {HALF_TO_EVEN}, label %even
    i64 {HALF_AWAY}, label %away ]
floor:
  ret {p.w} %q
ceil:
  %c = select i1 %some, {p.w} %up, {p.w} %q
  ret {p.w} %c
truncate:
  %u = and i1 %some, %below
  %t = select i1 %u, {p.w} %up, {p.w} %q
  ret {p.w} %t
even:
  %e1 = and i1 %tie, %bit
  %e2 = or i1 %over, %e1
  %e3 = select i1 %e2, {p.w} %up, {p.w} %q
  ret {p.w} %e3
away:
  %a1 = and i1 %tie, %notbelow
  %a2 = or i1 %over, %a1
  %a3 = select i1 %a2, {p.w} %up, {p.w} %q
  ret {p.w} %a3
}}

define internal void @to_whole(ptr %out, ptr %a, i64 %how) noinline {{
  %t = alloca [{p.size} x i8], align 8
  %x = call double @shadow(ptr %a)
  %kind = load i64, ptr %a, align 8
  %other = icmp ne i64 %kind, {FINITE}
  %zero = fcmp oeq double %x, 0.0
  %keep = or i1 %other, %zero
  br i1 %keep, label %same, label %finite
same:
  call void @copy(ptr %out, ptr %a)
  ret void
finite:
{field("a", "e", EXPONENT)}{field("a", "r", RADIUS)}{field("a", "m", MIDPOINT, p.n)}
  %m = sext {p.n} %a.m to {p.w}
  %r = zext i64 %a.r to {p.w}
  %low = sub {p.w} %m, %r
  %high = add {p.w} %m, %r
  %whole = icmp sge i64 %a.e, 0
  br i1 %whole, label %large, label %small
large:
  %sharp = icmp eq i64 %a.r, 0
  br i1 %sharp, label %same, label %lost
small:
{_on_boundary(p)}  %s0 = sub i64 0, %a.e
  %s = call i64 @llvm.smin.i64(i64 %s0, i64 {p.stored - 1})
  %p = call {p.w} @whole_of({p.w} %low, i64 %s, i64 %how)
  %q = call {p.w} @whole_of({p.w} %high, i64 %s, i64 %how)
  %agree = icmp eq {p.w} %p, %q
  br i1 %agree, label %signs, label %lost
signs:
  %none = icmp eq {p.w} %p, 0
  br i1 %none, label %zeros, label %some
zeros:
  %open = fcmp oeq double %x, 3.0
  br i1 %open, label %lost, label %signed
signed:
  %below = fcmp olt double %x, 0.0
  %z = select i1 %below, i64 {NEGATIVE_ZERO}, i64 {FINITE}
  call void @mark(ptr %out, i64 %z)
  ret void
some:
  call void @settle(ptr %out, {p.w} %p, {p.w} 0, i64 0)
  ret void
lost:
  call void @mark(ptr %out, i64 {UNKNOWN})
  ret void
}}
"""


# the integer nearest to a midpoint, and whether it is certain to fit in 62 bits
def _nearest(p: Precision) -> str:
    return f"""
define internal {{ i64, i1 }} @nearest_integer(ptr %a) noinline {{
  %kind = load i64, ptr %a, align 8
  %finite = icmp eq i64 %kind, {FINITE}
{field("a", "e", EXPONENT)}{field("a", "m", MIDPOINT, p.n)}
  %small = icmp slt i64 %a.e, {62 - p.bits}
  %none = icmp eq {p.n} %a.m, 0
  %fits0 = or i1 %small, %none
  %fits = and i1 %finite, %fits0
  br i1 %fits, label %go, label %no
no:
  ret {{ i64, i1 }} {{ i64 0, i1 false }}
go:
  %s0 = sub i64 0, %a.e
  %s1 = call i64 @llvm.smin.i64(i64 %s0, i64 {p.stored - 1})
  %s = call i64 @llvm.smax.i64(i64 %s1, i64 1)
  %m = sext {p.n} %a.m to {p.w}
  %q = call {p.w} @whole_of({p.w} %m, i64 %s, i64 {HALF_TO_EVEN})
  %n = trunc {p.w} %q to i64
  %found = insertvalue {{ i64, i1 }} {{ i64 0, i1 true }}, i64 %n, 0
  ret {{ i64, i1 }} %found
}}

define internal {{ i64, i1 }} @exact_integer(ptr %a) noinline {{
  %kind = load i64, ptr %a, align 8
  %zero = icmp eq i64 %kind, {NEGATIVE_ZERO}
  br i1 %zero, label %nothing, label %look
nothing:
  ret {{ i64, i1 }} {{ i64 0, i1 true }}
look:
  %t = alloca [{p.size} x i8], align 8
  %near = call {{ i64, i1 }} @nearest_integer(ptr %a)
  %n = extractvalue {{ i64, i1 }} %near, 0
  %ok = extractvalue {{ i64, i1 }} %near, 1
  call void @put_integer(ptr %t, i64 %n)
  %c = call i64 @compare(ptr %a, ptr %t)
  %same = icmp eq i64 %c, 0
  %both = and i1 %ok, %same
  %found = insertvalue {{ i64, i1 }} %near, i1 %both, 1
  ret {{ i64, i1 }} %found
}}

define internal void @put_integer(ptr %out, i64 %n) noinline {{
  %m = sext i64 %n to {p.w}
  call void @settle(ptr %out, {p.w} %m, {p.w} 0, i64 0)
  ret void
}}

define internal void @put_unsigned(ptr %out, i64 %n) noinline {{
  %m = zext i64 %n to {p.w}
  call void @settle(ptr %out, {p.w} %m, {p.w} 0, i64 0)
  ret void
}}
"""


# the exponent n of a finite number: the magnitude of its midpoint is between 2^n and 2^(n + 1)
def _exponent(p: Precision) -> str:
    return f"""
define internal {{ i64, i1 }} @exponent(ptr %a) noinline {{
  %kind = load i64, ptr %a, align 8
  %finite = icmp eq i64 %kind, {FINITE}
{field("a", "e", EXPONENT)}{field("a", "m", MIDPOINT, p.n)}
  %none = icmp eq {p.n} %a.m, 0
  %some = xor i1 %none, true
  %ok = and i1 %finite, %some
  %m = sext {p.n} %a.m to {p.w}
  %abs = call {p.w} @llvm.abs.{p.w}({p.w} %m, i1 false)
  %z = call {p.w} @llvm.ctlz.{p.w}({p.w} %abs, i1 false)
  %z64 = trunc {p.w} %z to i64
  %top = sub i64 {p.wide - 1}, %z64
  %n = add i64 %top, %a.e
  %found = insertvalue {{ i64, i1 }} zeroinitializer, i64 %n, 0
  %found2 = insertvalue {{ i64, i1 }} %found, i1 %ok, 1
  ret {{ i64, i1 }} %found2
}}

define internal void @scale(ptr %out, ptr %a, i64 %by) noinline {{
  call void @copy(ptr %out, ptr %a)
  %kind = load i64, ptr %a, align 8
  %finite = icmp eq i64 %kind, {FINITE}
  br i1 %finite, label %move, label %end
move:
{field("a", "e", EXPONENT)}{field("a", "r", RADIUS)}{field("a", "m", MIDPOINT, p.n)}
  %m = sext {p.n} %a.m to {p.w}
  %r = zext i64 %a.r to {p.w}
  %e = add i64 %a.e, %by
  %abs = call {p.w} @llvm.abs.{p.w}({p.w} %m, i1 false)
  %touches = icmp eq {p.w} %abs, %r
  %blurred = icmp ne i64 %a.r, 0
  %beside = and i1 %touches, %blurred
  br i1 %beside, label %zero, label %plain
zero:
  %below = icmp slt {p.w} %m, 0
  %most = add {p.w} %r, %r
  %log = call {{ double, double }} @logarithm(ptr %a)
  call void @put_beside_zero(ptr %out, {p.w} %most, i1 %below, i64 %e)
  %l0 = extractvalue {{ double, double }} %log, 0
  %h0 = extractvalue {{ double, double }} %log, 1
  %by0 = sitofp i64 %by to double
  %l = fadd double %l0, %by0
  %h = fadd double %h0, %by0
  call void @put_logarithm(ptr %out, double %l, double %h)
  br label %end
plain:
  call void @settle(ptr %out, {p.w} %m, {p.w} %r, i64 %e)
  br label %end
end:
  ret void
}}

; a with a radius that is larger by 2^by
define internal void @widen(ptr %out, ptr %a, i64 %by) noinline {{
  %t = alloca [{p.size} x i8], align 8
  call void @settle(ptr %t, {p.w} 0, {p.w} 1, i64 %by)
  call void @add(ptr %out, ptr %a, ptr %t)
  ret void
}}

; set the height of a number
define internal void @put_height(ptr %out, i64 %height) noinline {{
  %least = call i64 @llvm.smin.i64(i64 %height, i64 {balls.UNBOUNDED})
  %p = getelementptr i8, ptr %out, i64 {HEIGHT}
  store i64 %least, ptr %p, align 8
  ret void
}}

; a number in the middle of a: any number near it
define internal void @middle(ptr %out, ptr %a) noinline {{
  call void @copy(ptr %out, ptr %a)
  %kind = load i64, ptr %a, align 8
  %finite = icmp eq i64 %kind, {FINITE}
  br i1 %finite, label %sharpen, label %end
sharpen:
{field("a", "e", EXPONENT)}{field("a", "m", MIDPOINT, p.n)}
  %m = sext {p.n} %a.m to {p.w}
  call void @settle(ptr %out, {p.w} %m, {p.w} 0, i64 %a.e)
  br label %end
end:
  ret void
}}
"""


def functions(p: Precision) -> list[str]:
    made = (_shadow, _copy, _add, _sum, _root, _compare, _maximum, _beside, _whole, _nearest, _exponent)
    products = _product("multiply", "multiply_finite", "fmul"), _product("divide", "divide_finite", "fdiv")
    return [*balls.functions(p), *(function(p) for function in made), *products, *_TESTS]
