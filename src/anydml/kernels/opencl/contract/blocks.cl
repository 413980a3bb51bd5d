/* Sums of products on processors, where a work item has the registers and caches of a core: it computes a block of BLOCK x BLOCK
   elements, from packed rows and columns of AT_ONCE terms. NUMBER is the type of sums, VECTOR one of LANES numbers, A_VALUE and
   B_VALUE an element of a factor as a number. NOTHING is a sum without terms, ADDED(u, v, w) is u * v + w. */
#define AT_ONCE (DEPTH * DEEP)
#define HIGH 8 /* rows of a block whose sums are in registers at a time; of columns, there are two vectors */

/* a * b + c, rounded once, in each lane: some drivers have no fma of vectors */
double8 fused(double8 a, double8 b, double8 c) {
  return (double8)(fma(a.s0, b.s0, c.s0), fma(a.s1, b.s1, c.s1), fma(a.s2, b.s2, c.s2), fma(a.s3, b.s3, c.s3),
                   fma(a.s4, b.s4, c.s4), fma(a.s5, b.s5, c.s5), fma(a.s6, b.s6, c.s6), fma(a.s7, b.s7, c.s7));
}

#define BEGIN_BLOCK \
  local NUMBER a_pack[AT_ONCE][BLOCK] __attribute__((aligned(64))), b_pack[AT_ONCE][BLOCK] __attribute__((aligned(64))); \
  local NUMBER sum[BLOCK][BLOCK] __attribute__((aligned(64))); \
  local long column[BLOCK]; \
  local int place[3][BLOCK]; \
  int rows = (int)n[N_ROWS], columns = (int)n[N_COLUMNS], terms = (int)(n[N_CHANNELS] * n[N_POSITIONS]); \
  long block = first + (long)get_group_id(0), over = (columns + BLOCK - 1) / BLOCK, down = (rows + BLOCK - 1) / BLOCK; \
  int c0 = (int)(block % over) * BLOCK, r0 = (int)(block / over % down) * BLOCK; \
  int height = min(BLOCK, rows - r0), width = min(BLOCK, columns - c0); \
  long batch = block / over / down; \
  global const long *offsets = batches + batch * (2 + STREAMS); \
  a += offsets[0]; \
  b += offsets[1]; \
  int in_line = (int)n[N_X], lines = (int)n[N_Y]; \
  for (int c = 0, x = c0 % in_line, y = c0 / in_line % lines, z = c0 / in_line / lines; c < width; ++c) { \
    column[c] = z * n[N_B_Z] + y * n[N_B_Y] + x * n[N_B_X]; \
    place[0][c] = z, place[1][c] = y, place[2][c] = x; \
    if (++x == in_line) { \
      x = 0; \
      if (++y == lines) y = 0, ++z; \
    } \
  } \
  for (int r = 0; r < (height + HIGH - 1) / HIGH * HIGH; ++r) for (int c = 0; c < BLOCK; ++c) sum[r][c] = NOTHING; \
  for (int k = 0; k < min(terms, AT_ONCE); ++k) for (int r = 0; r < BLOCK; ++r) a_pack[k][r] = b_pack[k][r] = 0;

/* where the elements of each stream lie in a row: those of some are one for all columns */
#define BEGIN_ROWS \
  long along[STREAMS][BLOCK]; \
  bool varies[STREAMS]; \
  for (int k = 0; k < STREAMS; ++k) { \
    constant long *step = n + N_STREAMS + 4 * k; \
    varies[k] = step[1] || step[2] || step[3]; \
    for (int t = 0; t < BLOCK; ++t) \
      along[k][t] = varies[k] && t < width ? place[0][t] * step[1] + place[1][t] * step[2] + place[2][t] * step[3] : 0; \
  }

/* the elements of a stream in row r */
#define READ_ROW(TYPE, p, k) \
  TYPE p##_row[BLOCK]; \
  { \
    global const uchar *from = p + (offsets[2 + k] + r * n[N_STREAMS + 4 * k]); \
    if (varies[k]) \
      for (int t = 0; t < BLOCK; ++t) p##_row[t] = *(global const TYPE *)(from + along[k][t]); \
    else { \
      TYPE one = *(global const TYPE *)from; \
      for (int t = 0; t < BLOCK; ++t) p##_row[t] = one; \
    } \
  }

/* stores the elements of row r that are decided; UNDECIDED is done for the others */
#define WRITE_ROW(UNDECIDED) { \
  global uchar *to = OUTPUT + (offsets[2 + STREAMS - 1] + r * n[N_STREAMS + 4 * (STREAMS - 1)]); \
  for (int t = 0; t < width; ++t) \
    if (made[t] >> 32) { UNDECIDED } \
    else *(global OUTPUT_TYPE *)(to + along[STREAMS - 1][t]) = (OUTPUT_TYPE)made[t]; \
  }

/* the packed rows and columns of some terms */
void pack(local NUMBER (*a_pack)[BLOCK], local NUMBER (*b_pack)[BLOCK], global const uchar *a, global const uchar *b,
          constant long *n, global const long *table, local const long *column, local const int (*place)[BLOCK],
          local const int *a_zero, local const int *b_zero, int k0, int count, int r0, int height, int width) {
  long a_row = n[N_A_ROW], a_step = n[N_A_TERM], b_step = n[N_B_TERM];
  int channels = (int)n[N_CHANNELS];
  for (int k = 0; k < count; ++k) {
#if ONE_POSITION
    global const long *at = table;
    int channel = k0 + k;
#else
    global const long *at = table + 8 * ((k0 + k) / channels);
    int channel = (k0 + k) % channels;
#endif
    global const uchar *from = a + (r0 * a_row + at[P_A] + channel * a_step);
    for (int r = 0; r < height; ++r) a_pack[k][r] = A_VALUE(*(global const A_TYPE *)(from + r * a_row), r);
    long there = at[P_B] + channel * b_step;
#if PADDED
    int range[6];
    for (int i = 0; i < 6; ++i) range[i] = (int)at[P_RANGES + i];
    for (int c = 0; c < width; ++c) {
      int z = place[0][c], y = place[1][c], x = place[2][c];
      bool counts = (z >= range[0]) & (z < range[1]) & (y >= range[2]) & (y < range[3]) & (x >= range[4]) & (x < range[5]);
      NUMBER found = B_VALUE(*(global const B_TYPE *)(b + (counts ? there + column[c] : 0)), c);
      b_pack[k][c] = counts ? found : 0;
    }
#else
    for (int c = 0; c < width; ++c) b_pack[k][c] = B_VALUE(*(global const B_TYPE *)(b + there + column[c]), c);
#endif
  }
}

/* adds the products of packed terms to the sums */
void multiply(local const NUMBER (*a_pack)[BLOCK], local const NUMBER (*b_pack)[BLOCK], local NUMBER (*sum)[BLOCK], int count,
              int height, int width) {
  for (int j = 0; j < width; j += 2 * LANES)
    for (int i = 0; i < height; i += HIGH) {
      VECTOR part[HIGH][2];
      _Pragma("unroll")
      for (int r = 0; r < HIGH; ++r) part[r][0] = part[r][1] = (VECTOR)(NOTHING);
      for (int k = 0; k < count; ++k) {
        VECTOR v = *(local const VECTOR *)&b_pack[k][j], w = *(local const VECTOR *)&b_pack[k][j + LANES];
        _Pragma("unroll")
        for (int r = 0; r < HIGH; ++r) {
          VECTOR u = (VECTOR)(a_pack[k][i + r]);
          part[r][0] = ADDED(u, v, part[r][0]);
          part[r][1] = ADDED(u, w, part[r][1]);
        }
      }
      for (int r = 0; r < HIGH; ++r) {
        *(local VECTOR *)&sum[i + r][j] += part[r][0];
        *(local VECTOR *)&sum[i + r][j + LANES] += part[r][1];
      }
    }
}
