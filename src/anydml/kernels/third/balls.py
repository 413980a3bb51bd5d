"""Numbers of 250 bits with an error bound, and their arithmetic, as functions in LLVM IR.

A number is a record of 64 bytes: its kind and, if it is finite, an exponent e, a radius r and a midpoint m. The number is
between (m - r) 2^e and (m + r) 2^e. Sums, products, quotients and roots that fit are exact: their radius is 0. A zero of
radius 0 is +0.

If |m| = r > 0, the number lies between 0 and 2 m 2^e, and is not 0: its sign is known, however small it is. Functions that
decay are such numbers far away, and so are products and quotients whose exponents would be below -FARTHEST.
"""

from __future__ import annotations

SIZE = 64  # bytes of a number
EXPONENT, RADIUS, MIDPOINT = 8, 16, 32  # offsets in it; the kind is its first word
FINITE, NEGATIVE_ZERO, INFINITE, NEGATIVE_INFINITE, NAN, UNKNOWN = range(6)
BITS = 250  # of a midpoint, at most
RADIUS_BITS = 60
FARTHEST = 1 << 40  # magnitude of exponents

DECLARED = [
    "declare i512 @llvm.ctlz.i512(i512, i1)",
    "declare i512 @llvm.abs.i512(i512, i1)",
    "declare i64 @llvm.smax.i64(i64, i64)",
    "declare i64 @llvm.smin.i64(i64, i64)",
    "declare i64 @llvm.umin.i64(i64, i64)",
]


def _fields(a: str) -> str:
    """Instructions that load the fields of a number: %a.e, %a.r, %a.m for `a`."""
    return f"""  %{a}.ep = getelementptr i8, ptr %{a}, i64 {EXPONENT}
  %{a}.e = load i64, ptr %{a}.ep, align 8
  %{a}.rp = getelementptr i8, ptr %{a}, i64 {RADIUS}
  %{a}.r = load i64, ptr %{a}.rp, align 8
  %{a}.mp = getelementptr i8, ptr %{a}, i64 {MIDPOINT}
  %{a}.n = load i256, ptr %{a}.mp, align 8
  %{a}.m = sext i256 %{a}.n to i512
  %{a}.w = zext i64 %{a}.r to i512
"""


_MARK = f"""
define internal void @mark(ptr %out, i64 %kind) noinline {{
  store i64 %kind, ptr %out, align 8
  %e = getelementptr i8, ptr %out, i64 {EXPONENT}
  store i64 0, ptr %e, align 8
  %r = getelementptr i8, ptr %out, i64 {RADIUS}
  store i64 0, ptr %r, align 8
  %m = getelementptr i8, ptr %out, i64 {MIDPOINT}
  store i256 0, ptr %m, align 8
  ret void
}}
"""

# a number between 0 and +-u 2^e that is not 0, as a record, where u is 1 to 2^508
_BESIDE_ZERO = f"""
define internal void @put_beside_zero(ptr %out, i512 %u, i1 %below, i64 %e) noinline {{
  %z = call i512 @llvm.ctlz.i512(i512 %u, i1 false)
  %z64 = trunc i512 %z to i64
  %s0 = sub i64 {512 - RADIUS_BITS + 2}, %z64
  %s = call i64 @llvm.smax.i64(i64 %s0, i64 0)
  %k = zext i64 %s to i512
  %v = lshr i512 %u, %k
  %v64 = trunc i512 %v to i64
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
  %rp = getelementptr i8, ptr %out, i64 {RADIUS}
  store i64 %r, ptr %rp, align 8
  %mp = getelementptr i8, ptr %out, i64 {MIDPOINT}
  %r5 = zext i64 %r to i256
  %minus = sub i256 0, %r5
  %m = select i1 %below, i256 %minus, i256 %r5
  store i256 %m, ptr %mp, align 8
  ret void
}}
"""

# (m +- r) 2^e as a record. The midpoint is shifted to BITS bits, or to fewer where the radius would exceed RADIUS_BITS bits
_SETTLE = f"""
define internal void @settle(ptr %out, i512 %m, i512 %r, i64 %e) noinline {{
  %abs = call i512 @llvm.abs.i512(i512 %m, i1 false)
  %zm = call i512 @llvm.ctlz.i512(i512 %abs, i1 false)
  %zr = call i512 @llvm.ctlz.i512(i512 %r, i1 false)
  %zm64 = trunc i512 %zm to i64
  %zr64 = trunc i512 %zr to i64
  %s1 = sub i64 {512 - BITS}, %zm64
  %s2 = sub i64 {512 - RADIUS_BITS}, %zr64
  %sharp = icmp eq i512 %r, 0
  %s2b = select i1 %sharp, i64 -600, i64 %s2
  %s = call i64 @llvm.smax.i64(i64 %s1, i64 %s2b)
  %none = icmp eq i512 %m, 0
  %zero = and i1 %none, %sharp
  br i1 %zero, label %nothing, label %something
nothing:
  call void @mark(ptr %out, i64 {FINITE})
  ret void
something:
  %right = icmp sgt i64 %s, 0
  br i1 %right, label %shorter, label %longer
shorter:
  %k = zext i64 %s to i512
  %unit = shl i512 1, %k
  %mask = sub i512 %unit, 1
  %low = and i512 %m, %mask
  %lost = icmp ne i512 %low, 0
  %m1 = ashr i512 %m, %k
  %r0 = add i512 %r, %mask
  %r1 = lshr i512 %r0, %k
  %more = zext i1 %lost to i512
  %r2 = add i512 %r1, %more
  br label %made
longer:
  %t = sub i64 0, %s
  %j = zext i64 %t to i512
  %m3 = shl i512 %m, %j
  %r3 = shl i512 %r, %j
  br label %made
made:
  %m4 = phi i512 [ %m1, %shorter ], [ %m3, %longer ]
  %r4 = phi i512 [ %r2, %shorter ], [ %r3, %longer ]
  %e4 = add i64 %e, %s
  %shifted = add i64 %e4, {FARTHEST}
  %near = icmp ult i64 %shifted, {2 * FARTHEST}
  br i1 %near, label %kept, label %far
far:
  %abs4 = call i512 @llvm.abs.i512(i512 %m4, i1 false)
  %signed = icmp ugt i512 %abs4, %r4
  %small = icmp slt i64 %e4, 0
  %decayed = and i1 %signed, %small
  br i1 %decayed, label %tiny, label %far_away
tiny:
  %below = icmp slt i512 %m4, 0
  call void @put_beside_zero(ptr %out, i512 1, i1 %below, i64 {256 - FARTHEST})
  ret void
far_away:
  call void @mark(ptr %out, i64 {UNKNOWN})
  ret void
kept:
  ; a radius that happens to be |m| becomes larger: the number may be 0
  %abs5 = call i512 @llvm.abs.i512(i512 %m4, i1 false)
  %touches = icmp eq i512 %abs5, %r4
  %blurred = icmp ne i512 %r4, 0
  %meets = and i1 %touches, %blurred
  %apart = zext i1 %meets to i512
  store i64 {FINITE}, ptr %out, align 8
  %ep = getelementptr i8, ptr %out, i64 {EXPONENT}
  store i64 %e4, ptr %ep, align 8
  %rp = getelementptr i8, ptr %out, i64 {RADIUS}
  %r4a = add i512 %r4, %apart
  %r5 = trunc i512 %r4a to i64
  store i64 %r5, ptr %rp, align 8
  %mp = getelementptr i8, ptr %out, i64 {MIDPOINT}
  %m5 = trunc i512 %m4 to i256
  store i256 %m5, ptr %mp, align 8
  ret void
}}
"""

# the sum of two finite numbers, of which a has the larger exponent
_ADD = f"""
define internal void @add_ordered(ptr %out, ptr %a, ptr %b) noinline {{
{_fields("a")}{_fields("b")}
  %bnone = icmp eq i512 %b.m, 0
  %bsharp = icmp eq i64 %b.r, 0
  %bzero = and i1 %bnone, %bsharp
  br i1 %bzero, label %same, label %sum
same:
  call void @copy(ptr %out, ptr %a)
  ret void
sum:
  %d = sub i64 %a.e, %b.e
  %up = call i64 @llvm.umin.i64(i64 %d, i64 {BITS})
  %down = sub i64 %d, %up
  %far = icmp ne i64 %down, 0
  %downm = call i64 @llvm.umin.i64(i64 %down, i64 400)
  %downr = call i64 @llvm.umin.i64(i64 %down, i64 63)
  %k = zext i64 %up to i512
  %j = zext i64 %downm to i512
  %am = shl i512 %a.m, %k
  %aw = shl i512 %a.w, %k
  %bm = ashr i512 %b.m, %j
  %br = lshr i64 %b.r, %downr
  %slack = select i1 %far, i64 2, i64 0
  %br2 = add i64 %br, %slack
  %bw = zext i64 %br2 to i512
  %m = add i512 %am, %bm
  %w = add i512 %aw, %bw
  %e = sub i64 %a.e, %up
  %size = call i512 @llvm.abs.i512(i512 %m, i1 false)
  %open = icmp ule i512 %size, %w
  br i1 %open, label %signs, label %ball
signs:
  %sa = call i64 @sign(ptr %a)
  %sb = call i64 @sign(ptr %b)
  %agree = icmp eq i64 %sa, %sb
  %known = icmp ne i64 %sa, 2
  %beside = and i1 %agree, %known
  br i1 %beside, label %zero, label %ball
zero:
  %most = add i512 %size, %w
  %below = icmp eq i64 %sa, -1
  call void @put_beside_zero(ptr %out, i512 %most, i1 %below, i64 %e)
  ret void
ball:
  call void @settle(ptr %out, i512 %m, i512 %w, i64 %e)
  ret void
}}

define internal void @add_finite(ptr %out, ptr %a, ptr %b) noinline {{
  %ap = getelementptr i8, ptr %a, i64 {EXPONENT}
  %ae = load i64, ptr %ap, align 8
  %bp = getelementptr i8, ptr %b, i64 {EXPONENT}
  %be = load i64, ptr %bp, align 8
  %am = getelementptr i8, ptr %a, i64 {MIDPOINT}
  %an = load i256, ptr %am, align 8
  %ar = getelementptr i8, ptr %a, i64 {RADIUS}
  %as = load i64, ptr %ar, align 8
  %n = icmp eq i256 %an, 0
  %s = icmp eq i64 %as, 0
  %azero = and i1 %n, %s
  %below = icmp slt i64 %ae, %be
  %turn = or i1 %azero, %below
  %bm = getelementptr i8, ptr %b, i64 {MIDPOINT}
  %bn = load i256, ptr %bm, align 8
  %brp = getelementptr i8, ptr %b, i64 {RADIUS}
  %bs = load i64, ptr %brp, align 8
  %bn0 = icmp eq i256 %bn, 0
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

_MULTIPLY = f"""
define internal void @multiply_finite(ptr %out, ptr %a, ptr %b) noinline {{
{_fields("a")}{_fields("b")}
  %m = mul i512 %a.m, %b.m
  %e = add i64 %a.e, %b.e
  %rs = or i64 %a.r, %b.r
  %sharp = icmp eq i64 %rs, 0
  br i1 %sharp, label %exact, label %bounded
exact:
  call void @settle(ptr %out, i512 %m, i512 0, i64 %e)
  ret void
bounded:
  %x = call i512 @llvm.abs.i512(i512 %a.m, i1 false)
  %y = call i512 @llvm.abs.i512(i512 %b.m, i1 false)
  %yb = add i512 %y, %b.w
  %sa = call i64 @sign(ptr %a)
  %sb = call i64 @sign(ptr %b)
  %ta = icmp eq i512 %x, %a.w
  %tb = icmp eq i512 %y, %b.w
  %ka = icmp ne i64 %sa, 2
  %kb = icmp ne i64 %sb, 2
  %t = or i1 %ta, %tb
  %known = and i1 %ka, %kb
  %beside = and i1 %t, %known
  br i1 %beside, label %zero, label %ball
zero:
  %xa = add i512 %x, %a.w
  %most = mul i512 %xa, %yb
  %below = icmp ne i64 %sa, %sb
  call void @put_beside_zero(ptr %out, i512 %most, i1 %below, i64 %e)
  ret void
ball:
  %w1 = mul i512 %x, %b.w
  %w2 = mul i512 %yb, %a.w
  %w = add i512 %w1, %w2
  call void @settle(ptr %out, i512 %m, i512 %w, i64 %e)
  ret void
}}
"""

# a / b of midpoints, for numbers A and B within ra and rb of them: |a / b - A / B| <= (ra + |a / b| rb) / (|b| - rb), and
# rb is at most half of |b|. Let Y be |b| - rb, shifted as b is, to BITS + 1 bits. In units of the quotient's last bit,
# ra / Y is at most ra c 2^-30, shifted as a is, and |a / b| is less than 2^(BITS + 2). A midpoint has at most BITS + 1 bits,
# since rounding down may give -2^BITS.
_DIVIDE = f"""
define internal void @divide_finite(ptr %out, ptr %a, ptr %b) noinline {{
{_fields("a")}{_fields("b")}
  %x = call i512 @llvm.abs.i512(i512 %a.m, i1 false)
  %y = call i512 @llvm.abs.i512(i512 %b.m, i1 false)
  %rb2 = shl i512 %b.w, 1
  %wide = icmp ule i512 %y, %rb2
  br i1 %wide, label %lost, label %go
lost:
  call void @mark(ptr %out, i64 {UNKNOWN})
  ret void
go:
  %tx = icmp eq i512 %x, %a.w
  br i1 %tx, label %zero, label %ball
zero:
  ; |b| is more than 2^(length - 2), so that 1 / |b| is less than 2^(2 - length)
  %below0 = icmp slt i512 %a.m, 0
  %bbelow = icmp slt i512 %b.m, 0
  %turns = xor i1 %below0, %bbelow
  %zb = call i512 @llvm.ctlz.i512(i512 %y, i1 false)
  %zb64 = trunc i512 %zb to i64
  %xa = add i512 %x, %a.w
  %eab = sub i64 %a.e, %b.e
  %ez = add i64 %eab, %zb64
  %et = sub i64 %ez, {512 - 2}
  call void @put_beside_zero(ptr %out, i512 %xa, i1 %turns, i64 %et)
  ret void
ball:
  %zx = call i512 @llvm.ctlz.i512(i512 %x, i1 false)
  %zy = call i512 @llvm.ctlz.i512(i512 %y, i1 false)
  %zx64 = trunc i512 %zx to i64
  %zy64 = trunc i512 %zy to i64
  %lx = sub i64 512, %zx64
  %ly = sub i64 512, %zy64
  %kx = sub i64 {BITS + 1}, %lx
  %ky = sub i64 {BITS + 1}, %ly
  %kx5 = zext i64 %kx to i512
  %ky5 = zext i64 %ky to i512
  %xs = shl i512 %x, %kx5
  %ys = shl i512 %y, %ky5
  %xs2 = trunc i512 %xs to i256
  %ys2 = trunc i512 %ys to i256
  br label %loop
loop:
  %i = phi i64 [ 0, %ball ], [ %i1, %loop ]
  %rem = phi i256 [ %xs2, %ball ], [ %rem2, %loop ]
  %q = phi i256 [ 0, %ball ], [ %q2, %loop ]
  %fits = icmp uge i256 %rem, %ys2
  %part = select i1 %fits, i256 %ys2, i256 0
  %rem1 = sub i256 %rem, %part
  %rem2 = shl i256 %rem1, 1
  %q1 = shl i256 %q, 1
  %digit = zext i1 %fits to i256
  %q2 = or i256 %q1, %digit
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, {BITS + 2}
  br i1 %more, label %loop, label %done
done:
  %some = icmp ne i256 %rem2, 0
  %lack = zext i1 %some to i512
  %qw = zext i256 %q2 to i512
  %an = icmp slt i512 %a.m, 0
  %bn = icmp slt i512 %b.m, 0
  %below = xor i1 %an, %bn
  %minus = sub i512 0, %qw
  %m = select i1 %below, i512 %minus, i512 %qw
  ; 2^62 / (the leading 32 bits of |b| - rb), rounded up
  %rbs = shl i512 %b.w, %ky5
  %least = sub i512 %ys, %rbs
  %lead5 = lshr i512 %least, {BITS + 1 - 32}
  %lead = trunc i512 %lead5 to i64
  %c0 = udiv i64 {1 << 62}, %lead
  %c = add i64 %c0, 1
  %c5 = zext i64 %c to i512
  %wa = mul i512 %a.w, %c5
  %wb = mul i512 %b.w, %c5
  %was = shl i512 %wa, %kx5
  %ky6 = add i512 %ky5, 1
  %wbs = shl i512 %wb, %ky6
  %wa30 = lshr i512 %was, 30
  %wb30 = lshr i512 %wbs, 30
  %w1 = add i512 %wa30, 1
  %w2 = add i512 %wb30, 1
  %w3 = add i512 %w1, %w2
  %rs = or i64 %a.r, %b.r
  %sharp = icmp eq i64 %rs, 0
  %w4 = select i1 %sharp, i512 0, i512 %w3
  %w = add i512 %w4, %lack
  %e1 = sub i64 %a.e, %b.e
  %e2 = add i64 %e1, %lx
  %e3 = sub i64 %e2, %ly
  %e = sub i64 %e3, {BITS + 1}
  call void @settle(ptr %out, i512 %m, i512 %w, i64 %e)
  ret void
}}
"""

# the square root of a positive number, digit by digit. The radicand has 2 BITS - 1 or 2 BITS bits, and its exponent is even
_ROOT = f"""
define internal void @root_positive(ptr %out, ptr %a) noinline {{
entry:
{_fields("a")}
  %z = call i512 @llvm.ctlz.i512(i512 %a.m, i1 false)
  %z64 = trunc i512 %z to i64
  %k0 = sub i64 %z64, {512 - 2 * BITS}
  %e0 = sub i64 %a.e, %k0
  %odd = and i64 %e0, 1
  %k = sub i64 %k0, %odd
  %k5 = zext i64 %k to i512
  %n = shl i512 %a.m, %k5
  %top = shl i512 1, {2 * BITS - 2}
  br label %loop
loop:
  %bit = phi i512 [ %top, %entry ], [ %bit1, %loop ]
  %left = phi i512 [ %n, %entry ], [ %left1, %loop ]
  %root = phi i512 [ 0, %entry ], [ %root1, %loop ]
  %try = add i512 %root, %bit
  %fits = icmp uge i512 %left, %try
  %part = select i1 %fits, i512 %try, i512 0
  %left1 = sub i512 %left, %part
  %half = lshr i512 %root, 1
  %add = select i1 %fits, i512 %bit, i512 0
  %root1 = add i512 %half, %add
  %bit1 = lshr i512 %bit, 2
  %more = icmp ne i512 %bit1, 0
  br i1 %more, label %loop, label %done
done:
  %some = icmp ne i512 %left1, 0
  %lack = zext i1 %some to i512
  %rw = shl i512 %a.w, %k5
  %r1 = lshr i512 %rw, {BITS - 2}
  %blurred = icmp ne i64 %a.r, 0
  %slack = zext i1 %blurred to i512
  %r2 = add i512 %r1, %slack
  %r = add i512 %r2, %lack
  %e1 = sub i64 %a.e, %k
  %e = ashr i64 %e1, 1
  call void @settle(ptr %out, i512 %root1, i512 %r, i64 %e)
  ret void
}}
"""

# the sign of a finite number: 1, 0 or -1; 2 if its radius leaves it undecided
_SIGN = f"""
define internal i64 @sign(ptr %a) noinline {{
{_fields("a")}
  %above = icmp sge i512 %a.m, %a.w
  %minus = sub i512 0, %a.w
  %below = icmp sle i512 %a.m, %minus
  %wm = or i512 %a.m, %a.w
  %zero = icmp eq i512 %wm, 0
  %s1 = select i1 %below, i64 -1, i64 2
  %s2 = select i1 %above, i64 1, i64 %s1
  %s3 = select i1 %zero, i64 0, i64 %s2
  ret i64 %s3
}}
"""

FUNCTIONS = [_MARK, _BESIDE_ZERO, _SETTLE, _ADD, _MULTIPLY, _DIVIDE, _ROOT, _SIGN]
