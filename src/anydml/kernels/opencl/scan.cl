// Running sums and products of lines, in chunks: the totals of chunks, the totals before each chunk, then the elements.
//
// Sums of floats are integers of LIMBS words, in units of the smallest subnormal number: nothing is rounded before the end.
// Products of floats are between m and m + lost, times 2^e, where m has LIMBS words and its highest bit is set; if both ends
// round to the same element, it is the product's.

#define HIDDEN (1UL << (PRECISION - 1))
#define TOP (1UL << 63)

#ifdef INTEGERS
typedef ulong State;
State start(void) { return PRODUCT; }
State with(State a, ulong bits) { return PRODUCT ? a * bits : a + bits; }
State merged(State a, State b) { return PRODUCT ? a * b : a + b; }
ulong result(State a, bool *undecided) { return a; }
#else

#define NOT_A_NUMBER 1
#define INFINITE 2  // of sums: +infinity
#define MINUS 4     // of sums: -infinity; of products: the sign
#define SOME 8      // of sums: an element that is not -0; of products: a zero
#define ANY 16      // an element

typedef struct {
  ulong m[LIMBS];
  long e;
  ulong lost;
  uint flags;
} State;

// The bits of m * 2^e, rounded half to even.
ulong nearest(const ulong *m, long e) {
  int t = -1;
  for (int k = 0; k < LIMBS; ++k)
    if (m[k]) t = 64 * k + 63 - (int)clz(m[k]);
  if (t + e >= HIGHEST) return INFINITY_;
  long unit = max(t + e - (PRECISION - 1), (long)LOWEST), s = unit - e;
  if (s > t + 1) return 0;
  ulong q;
  if (s <= 0) {
    q = m[0] << -s;
  } else {
    int w = (int)(s >> 6), b = (int)(s & 63), middle = (int)((s - 1) >> 6), h = (int)((s - 1) & 63);
    q = w < LIMBS ? m[w] >> b : 0;
    if (b && w + 1 < LIMBS) q |= m[w + 1] << (64 - b);
    ulong rest = m[middle] & ((1UL << h) - 1);
    for (int k = 0; k < middle; ++k) rest |= m[k];
    if ((m[middle] >> h) & 1) q += rest ? 1 : q & 1;
  }
  ulong bits = ((ulong)(unit - LOWEST) << (PRECISION - 1)) + q;
  return bits < INFINITY_ ? bits : INFINITY_;
}

#ifndef PRODUCTS
State start(void) {
  State a;
  for (int k = 0; k < LIMBS; ++k) a.m[k] = 0;
  a.flags = 0;
  return a;
}

State with(State a, ulong bits) {
  ulong size = bits & ~SIGN, field = size >> (PRECISION - 1);
  a.flags |= ANY | (bits == SIGN ? 0 : SOME);
  if (size >= INFINITY_) {
    a.flags |= size > INFINITY_ ? NOT_A_NUMBER : bits & SIGN ? MINUS : INFINITE;
    return a;
  }
  ulong m = (size & (HIDDEN - 1)) | (field ? HIDDEN : 0);
  int s = field ? (int)field - 1 : 0, w = s >> 6, b = s & 63;
  ulong low = m << b, high = b ? m >> (64 - b) : 0, carry = 0;
  for (int k = 0; k < LIMBS; ++k) {
    ulong x = k == w ? low : k == w + 1 ? high : 0, y = a.m[k];
    ulong made = bits & SIGN ? y - x : y + x, out = bits & SIGN ? y < x : made < x;
    a.m[k] = bits & SIGN ? made - carry : made + carry;
    carry = out | (bits & SIGN ? made < carry : a.m[k] < carry);
  }
  return a;
}

State merged(State a, State b) {
  ulong carry = 0;
  for (int k = 0; k < LIMBS; ++k) {
    ulong made = a.m[k] + b.m[k], out = made < b.m[k];
    a.m[k] = made + carry;
    carry = out | (a.m[k] < carry);
  }
  a.flags |= b.flags;
  return a;
}

ulong result(State a, bool *undecided) {
  if (a.flags & NOT_A_NUMBER || (a.flags & (INFINITE | MINUS)) == (INFINITE | MINUS)) return QUIET_NAN;
  if (a.flags & (INFINITE | MINUS)) return INFINITY_ | (a.flags & MINUS ? SIGN : 0);
  ulong any = 0, sign = a.m[LIMBS - 1] & TOP ? SIGN : 0, carry = 1;
  for (int k = 0; k < LIMBS; ++k) {
    any |= a.m[k];
    if (sign) {
      a.m[k] = ~a.m[k] + carry;
      carry = carry && !a.m[k];
    }
  }
  if (!any) return (a.flags & (ANY | SOME)) == ANY ? SIGN : 0;
  return sign | nearest(a.m, LOWEST);
}
#else
State start(void) {
  State a;
  for (int k = 0; k < LIMBS; ++k) a.m[k] = 0;
  a.m[LIMBS - 1] = TOP;
  a.e = 1 - 64 * LIMBS;
  a.lost = 0;
  a.flags = 0;
  return a;
}

State with(State a, ulong bits) {
  ulong size = bits & ~SIGN, field = size >> (PRECISION - 1);
  a.flags ^= bits & SIGN ? MINUS : 0;
  if (size == 0 || size >= INFINITY_) {
    a.flags |= size == 0 ? SOME : size > INFINITY_ ? NOT_A_NUMBER : INFINITE;
    return a;
  }
  ulong m = (size & (HIDDEN - 1)) | (field ? HIDDEN : 0), carry = 0;
  for (int k = 0; k < LIMBS; ++k) {
    ulong high = mul_hi(a.m[k], m), low = a.m[k] * m + carry;
    carry = high + (low < carry);
    a.m[k] = low;
  }
  int s = carry ? 64 - (int)clz(carry) : 0;
  ulong dropped = a.m[0] & ((1UL << s) - 1);
  if (s)
    for (int k = 0; k < LIMBS; ++k) a.m[k] = (a.m[k] >> s) | ((k + 1 < LIMBS ? a.m[k + 1] : carry) << (64 - s));
  a.e += s + (field ? (long)field - 1 : 0) + LOWEST;
  a.lost = a.lost || dropped ? ((a.lost * m) >> s) + 2 : 0;
  return a;
}

State merged(State a, State b) {
  ulong made[2 * LIMBS], dropped = 0;
  for (int k = 0; k < 2 * LIMBS; ++k) made[k] = 0;
  for (int i = 0; i < LIMBS; ++i) {
    ulong carry = 0;
    for (int j = 0; j < LIMBS; ++j) {
      ulong high = mul_hi(a.m[i], b.m[j]), low = a.m[i] * b.m[j], sum = made[i + j] + low;
      high += sum < low;
      low = sum + carry;
      carry = high + (low < carry);
      made[i + j] = low;
    }
    made[i + LIMBS] = carry;
  }
  int up = made[2 * LIMBS - 1] & TOP ? 0 : 1;
  for (int k = 0; k < LIMBS; ++k) {
    dropped |= up && k == LIMBS - 1 ? made[k] << 1 : made[k];
    a.m[k] = up ? (made[LIMBS + k] << 1) | (made[LIMBS + k - 1] >> 63) : made[LIMBS + k];
  }
  a.e += b.e + 64 * LIMBS - up;
  a.lost = a.lost || b.lost || dropped ? 2 * (a.lost + b.lost) + 4 : 0;
  a.flags = (a.flags | b.flags) & ~MINUS | ((a.flags ^ b.flags) & MINUS);
  return a;
}

ulong result(State a, bool *undecided) {
  ulong sign = a.flags & MINUS ? SIGN : 0;
  if (a.flags & NOT_A_NUMBER || (a.flags & (INFINITE | SOME)) == (INFINITE | SOME)) return QUIET_NAN;
  if (a.flags & (INFINITE | SOME)) return sign | (a.flags & INFINITE ? INFINITY_ : 0);
  ulong low = nearest(a.m, a.e);
  if (a.lost) {
    ulong carry = a.lost;
    for (int k = 0; k < LIMBS; ++k) {
      a.m[k] += carry;
      carry = a.m[k] < carry;
    }
    if (carry) {  // the words behind are nearly 0, and only the number's size counts
      a.m[LIMBS - 1] = TOP;
      ++a.e;
    }
    *undecided = nearest(a.m, a.e) != low;
  }
  *undecided = *undecided || LATER;
  return sign | low;
}
#endif
#endif

// shape: for each dimension of lines, its size and its strides in bytes in the source and the output
long2 place(global const long *shape, long line) {
  long2 at = 0;
  for (int d = DIMS - 1; d >= 0; --d) {
    long size = shape[3 * d], rest = line / size;
    at += (line - rest * size) * (long2)(shape[3 * d + 1], shape[3 * d + 2]);
    line = rest;
  }
  return at;
}

ulong element(global const uchar *source, long at) { return *(global const ELEMENT *)(source + at); }

// The total of each chunk.
kernel void totals(
  global const uchar *source, long at, global const long *shape, long step, long n, long chunk, long chunks,
  global State *states, long first, long past
) {
  long i = first + get_global_id(0);
  if (i >= past) return;
  long line = i / chunks, c = i - line * chunks;
  at += place(shape, line).x;
  State a = start();
  for (long j = c * chunk, end = min(j + chunk, n); j < end; ++j) a = with(a, element(source, at + j * step));
  states[i] = a;
}

// The totals before each chunk of a line.
kernel void starts(global State *states, long chunks, long first, long past) {
  long line = first + get_global_id(0);
  if (line >= past) return;
  State a = start();
  for (long c = line * chunks; c < (line + 1) * chunks; ++c) {
    State next = merged(a, states[c]);
    states[c] = a;
    a = next;
  }
}

// The elements of each chunk.
kernel void kernel_(
  global const uchar *source, long at, global uchar *output, long to, global const long *shape, long step, long to_step,
  long n, long chunk, long chunks, global const State *states, long first, long past
#ifdef PRODUCTS
  , global long *list, global int *counts, long slot, int room
#endif
) {
  long i = first + get_global_id(0);
  if (i >= past) return;
  long line = i / chunks, c = i - line * chunks;
  long2 places = place(shape, line);
  State a = start();
  if (chunks > 1) a = states[i];
  for (long j = c * chunk, end = min(j + chunk, n); j < end; ++j) {
    State after = with(a, element(source, at + places.x + j * step));
    bool undecided = false;
    ulong bits = result(EXCLUSIVE ? a : after, &undecided);
    *(global ELEMENT *)(output + to + places.y + j * to_step) = (ELEMENT)bits;
#ifdef PRODUCTS
    if (undecided) {
      int k = atomic_inc((volatile global int *)counts + slot);
      if (k < room) list[k] = line * n + j;
    }
#endif
    a = after;
  }
}
